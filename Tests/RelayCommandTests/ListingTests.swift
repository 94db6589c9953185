// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayAgent

@Suite struct ListingTests {
    private func entry(_ name: String, size: Int64 = 0, etag: String = "e") -> FileServiceMessages.Entry {
        FileServiceMessages.Entry(name: name, kind: .file, size: size, modified: .now, etag: etag)
    }

    private func code(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch {
            return (error as? AgentError)?.code
        }
    }

    @Test func pagesAreAddedInOrder() throws {
        var listing = Listing("Films", .whole)
        #expect(try listing.add([entry("a", size: .max), entry("b")], more: true, waited: .zero).map(\.name.text) == ["a", "b"])
        #expect(listing.after?.text == "b" && !listing.isAtEnd)
        #expect(try listing.add([entry("c")], more: false, waited: .zero).count == 1)
        #expect(listing.isAtEnd)
    }

    @Test func invalidPageIsAnError() {
        let wrong: [[FileServiceMessages.Entry]] = [
            [entry("b"), entry("a")], [entry("a"), entry("a")], [entry("a", size: -1)], [entry("a", size: .min)],
            [entry("a", etag: String(repeating: "e", count: 257))], [entry(String(repeating: "x", count: 256))], [],
            (0...FileServiceMessages.maximumEntries).map { entry("\(10_000 + $0)") },
        ]
        for page in wrong {
            var listing = Listing("", .pages)
            #expect(code { _ = try listing.add(page, more: true, waited: .zero) } == "listingInvalid", "\(page.first?.name ?? "")")
        }
        var listing = Listing("", .pages)
        #expect(code { _ = try listing.add([entry("../\u{301}x")], more: true, waited: .zero) } == "nameNotAllowed")
        // Names are compared by bytes: Swift considers these two equal.
        #expect(code { _ = try listing.add([entry("e\u{301}"), entry("\u{E9}")], more: true, waited: .zero) } == nil)
        #expect(code { _ = try listing.add([entry("\u{E9}")], more: true, waited: .zero) } == "listingInvalid")
    }

    /// The count of what was left out includes the entries that have no name.
    @Test func entriesWithoutANameAreCounted() throws {
        var listing = Listing("Films", .pages)
        _ = try listing.add([entry("a")], more: true, waited: .zero)
        let link = FileServiceMessages.Omission(name: "b", reason: FileServiceMessages.Omission.Reason.link.rawValue)
        let omissions = try listing.add(omitted: [link], more: 5)
        #expect(omissions.map(\.count) == [1, 5] && omissions.map(\.path) == ["Films/b", "Films"])
        #expect(omissions.last?.why.message == "5 more entries in 'Films' were left out")
        #expect(try listing.add(omitted: [], more: 1).first?.why.message == "1 more entry in 'Films' was left out")
        for number in [-1, .max, .min] { #expect(code { _ = try listing.add(omitted: [], more: number) } == "listingInvalid") }
    }

    /// However few come at a time.
    @Test(arguments: [(Listing.Use.whole, 1), (.whole, 999), (.pages, 1_000)]) func entriesOfAListingAreLimited(use: Listing.Use, page: Int)
        throws
    {
        var listing = Listing("Films", use)
        var next = 0
        func add(_ count: Int) throws {
            let page = (next..<next + count).map { entry("\(10_000_000 + $0)") }
            next += count
            _ = try listing.add(page, more: true, waited: .zero)
        }
        while next < use.maximumEntries { try add(min(page, use.maximumEntries - next)) }
        let error = try #require(throws: AgentError.self) { try add(1) }
        #expect(error.code == "listingTooLarge")
        #expect(error.message.contains("'Films' has more than \(use.maximumEntries) files and folders"))
        #expect(error.message.contains("-r") == (use == .whole))
    }

    @Test func bytesAndTimeOfAListingAreLimited() throws {
        // The largest etags; as many pages as are allowed, and one more.
        var bytes = Listing("", .pages)
        let etag = String(repeating: "e", count: RemoteEntry.maximumETagBytes)
        func page(_ number: Int) -> [FileServiceMessages.Entry] {
            (0..<1_000).map { entry("\(10_000_000 + 1_000 * number + $0)", etag: etag) }
        }
        let allowed = Listing.maximumBytes / (1_000 * (8 + RemoteEntry.maximumETagBytes))
        for number in 0..<allowed { _ = try bytes.add(page(number), more: true, waited: .zero) }
        #expect(code { _ = try bytes.add(page(allowed), more: true, waited: .zero) } == "listingTooLarge")
        var time = Listing("", .pages)
        #expect(
            code {
                _ = try time.add([entry("a")], more: true, waited: Listing.maximumWait)
                _ = try time.timeLeft()
            } == "listingTooLarge"
        )
    }
}
