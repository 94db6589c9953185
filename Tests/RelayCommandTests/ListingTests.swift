// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayAgent

@Suite struct ListingTests {
    private func entry(_ name: String, size: Int64 = 0, etag: String = "e") -> FileCalls.Entry {
        FileCalls.Entry(name: name, kind: .file, size: size, modified: .now, etag: etag)
    }

    private func code(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch {
            return (error as? AgentError)?.code
        }
    }

    @Test func pagesComeInOrder() throws {
        var listing = Listing("Films")
        #expect(try listing.add([entry("a", size: .max), entry("b")], more: true, waited: .zero).map(\.name.text) == ["a", "b"])
        #expect(listing.after?.text == "b" && !listing.isAtEnd)
        #expect(try listing.add([entry("c")], more: false, waited: .zero).count == 1)
        #expect(listing.isAtEnd)
    }

    @Test func whatIsNotValidIsAnError() {
        let wrong: [[FileCalls.Entry]] = [
            [entry("b"), entry("a")], [entry("a"), entry("a")], [entry("a", size: -1)], [entry("a", size: .min)],
            [entry("a", etag: String(repeating: "e", count: 257))], [entry(String(repeating: "x", count: 256))], [],
            (0...FileCalls.maximumEntries).map { entry("\(10_000 + $0)") },
        ]
        for page in wrong {
            var listing = Listing("")
            #expect(code { _ = try listing.add(page, more: true, waited: .zero) } == "listingInvalid", "\(page.first?.name ?? "")")
        }
        var listing = Listing("")
        #expect(code { _ = try listing.add([entry("../\u{301}x")], more: true, waited: .zero) } == "nameNotAllowed")
        // Names are compared by bytes: Swift considers these two equal.
        #expect(code { _ = try listing.add([entry("e\u{301}"), entry("\u{E9}")], more: true, waited: .zero) } == nil)
        #expect(code { _ = try listing.add([entry("\u{E9}")], more: true, waited: .zero) } == "listingInvalid")
    }

    @Test func aListingHasAnEnd() {
        var pages = Listing("")
        #expect(
            code {
                for page in 0..<Listing.maximumPages { _ = try pages.add([entry("\(100_000 + page)")], more: true, waited: .zero) }
            } == "listingTooLarge"
        )
        var bytes = Listing("")
        let name = String(repeating: "😀", count: 60)
        #expect(
            code {
                for page in 0..<Listing.maximumPages {
                    let entries = (0..<1_000).map { entry("\(10_000 + page)-\(10_000 + $0)\(name)", etag: name) }
                    _ = try bytes.add(entries, more: true, waited: .zero)
                }
            } == "listingTooLarge"
        )
        var time = Listing("")
        #expect(
            code {
                _ = try time.add([entry("a")], more: true, waited: Listing.maximumWait)
                _ = try time.timeLeft()
            } == "listingTooLarge"
        )
    }
}
