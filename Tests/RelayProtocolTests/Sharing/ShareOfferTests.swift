// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct ShareOfferTests {
    private typealias Raw = ShareOffer.RawEntry

    private static let id = [UInt8](repeating: 7, count: 16)

    private static func offer(_ entries: [ShareOffer.RawEntry], notes: [ShareOffer.Note] = []) throws(ShareOfferError) -> ShareOffer? {
        var (collector, offer) = (ShareOfferCollector(), ShareOffer?.none)
        for page in try ShareOffer.pages(id: id, entries: entries, notes: notes) { offer = try collector.add(page) }
        return offer
    }

    private static func file(_ path: String..., size: Int64 = 1) -> ShareOffer.RawEntry { .init(path: path, size: size, modified: 0) }
    private static func folder(_ path: String...) -> ShareOffer.RawEntry { .init(path: path, size: nil, modified: 0) }

    @Test func pagesOfAnOfferMakeTheOffer() throws {
        let entries =
            [Self.folder("Photos")] + (0..<9_000).map { Self.file("Photos", "picture number \($0).jpg", size: 5) } + [Self.file("a.txt")]
        let pages = try ShareOffer.pages(id: Self.id, entries: entries, notes: [.init(.text, "hello"), .init(.uri, "https://a.example/")])
        #expect(pages.count > 2)
        #expect(pages.map(\.more) == Array(repeating: true, count: pages.count - 1) + [false])
        let offer = try #require(try Self.offer(entries, notes: pages[0].notes))
        #expect(offer.entries.count == 9_002 && offer.fileCount == 9_001 && offer.bytes == 45_001)
        #expect(offer.tops.map { $0.path[0].text } == ["Photos", "a.txt"])
        #expect(offer.notes.count == 2)
    }

    @Test(arguments: [
        [file("..")], [file(".")], [file("")], [file("a/b")], [file("a\\b")], [file("a\0b")], [file("a\u{202E}b")], [file("a\nb")],
        [file(".x.relay-part")], [file(String(repeating: "a", count: 256))],
        // Not composed: the same name could come twice.
        [file("e\u{301}")],
        // In no folder, in a file, twice, and a file where a folder is.
        [file("a", "b")], [file("a"), file("a", "b")], [file("a"), file("a")], [folder("a"), file("a")],
        [file("a", size: -1)], [file("a", size: .max), file("b", size: 1)], [.init(path: [], size: 1, modified: 0)],
        (1...33).map { .init(path: Array(repeating: "d", count: $0), size: nil, modified: 0) },
        [],
    ])
    func whatIsNotAnOfferIsRefused(entries: [ShareOffer.RawEntry]) {
        #expect { try Self.offer(entries) } throws: { error in
            if case .invalid? = error as? ShareOfferError { true } else { false }
        }
    }

    @Test func largeOffersAreRefusedOnBothSides() throws {
        let name = String(repeating: "a", count: 250)
        let many = (0..<60_000).map { Self.file("\(name)\($0)") }
        #expect(throws: ShareOfferError.tooLarge) { try ShareOffer.pages(id: Self.id, entries: many, notes: []) }
        var collector = ShareOfferCollector()
        for _ in 0..<ShareLimits.pages { #expect(try collector.add(.init(id: Self.id, entries: [], notes: [], more: true)) == nil) }
        #expect(throws: ShareOfferError.tooLarge) { try collector.add(.init(id: Self.id, entries: [], notes: [], more: true)) }
        var other = ShareOfferCollector()
        #expect(throws: ShareOfferError.tooLarge) {
            try other.add(.init(id: Self.id, entries: Array(many.prefix(2_000)), notes: [], more: true))
        }
        #expect(throws: ShareOfferError.tooLarge) {
            try Self.offer([], notes: [.init(.text, String(repeating: "a", count: 64 << 10))])
        }
    }

    @Test func pagesOfAnotherOfferAreRefused() throws {
        var collector = ShareOfferCollector()
        #expect(try collector.add(.init(id: Self.id, entries: [Self.file("a")], notes: [], more: true)) == nil)
        #expect(throws: ShareOfferError.invalid("its id is not that of an offer")) {
            try collector.add(.init(id: [UInt8](repeating: 8, count: 16), entries: [], notes: [], more: false))
        }
        var short = ShareOfferCollector()
        #expect(throws: ShareOfferError.self) { try short.add(.init(id: [1], entries: [Self.file("a")], notes: [], more: false)) }
    }

    @Test func linksAreURIs() throws {
        #expect(throws: ShareOfferError.self) { try Self.offer([], notes: [.init(.uri, "no link")]) }
        #expect(try Self.offer([], notes: [.init(.uri, "https://a.example/")]) != nil)
    }

    @Test func namesGetNumbersBeforeTheirEnding() throws {
        func numbered(_ name: String) throws -> String? { try #require(EntryName(name)).numbered(2)?.text }
        #expect(try numbered("photo.jpg") == "photo (2).jpg")
        #expect(try numbered("archive.tar.gz") == "archive.tar (2).gz")
        #expect(try numbered(".profile") == ".profile (2)")
        #expect(try numbered("README") == "README (2)")
        #expect(try numbered(String(repeating: "a", count: 254)) == nil)
        #expect(try #require(EntryName("e\u{301}")).composed.text.utf8.elementsEqual("\u{E9}".utf8))
    }
}
