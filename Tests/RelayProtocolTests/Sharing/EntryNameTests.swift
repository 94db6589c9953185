// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct EntryNameTests {
    /// Characters that combine with a separator or a dot into one Character: marks after it, letters before it, joiners, emoji parts.
    private static let joining = ["\u{301}", "\u{20DD}", "\u{200C}", "\u{200D}", "\u{0D4E}", "\u{FE0F}", "\u{1F3FD}", "\u{E0101}"]

    @Test(arguments: [
        "", ".", "..", "/", "a/b", "/etc", "../x", "..\\x", "a\\b", "C:\\x", "\0", "a\0b", "\n", "a\rb", "\u{1B}[31m", "\u{7F}", "\u{85}",
        "\u{202E}txt", "\u{2066}x", "\u{2028}", "\u{FEFF}x", "../\u{301}x", "../\u{301}\u{0D4E}", "../\u{301}\u{0D4E}/..", "\u{0D4E}/x",
        "/\u{200D}x", "/\u{301}tmp", "\u{0D4E}\\x", "\\\u{301}", ".x.relay-part", ".RELAY-PART",
        String(repeating: "x", count: 256), String(repeating: "é", count: 128),
    ])
    func unsafeNamesAreRejected(text: String) { #expect(EntryName(text) == nil, "\(text.debugDescription)") }

    @Test(arguments: [
        "a", "...", "..a", ".hidden", "Rome è bella", "e\u{301}", "\u{301}x", "\u{0D4E}", "👩\u{200D}👧", "x.relay-part", "..relay-parts",
        "CON", " ",
        String(repeating: "x", count: 255),
    ])
    func safeNamesAreAccepted(text: String) throws { #expect(try #require(EntryName(text)).text.utf8.elementsEqual(text.utf8)) }

    @Test func separatorIsFoundBesideAnyCharacter() {
        for separator in ["/", "\\", "\0"] {
            for before in Self.joining + ["", "a", ".", ".."] {
                for after in Self.joining + ["", "a", ".", ".."] {
                    for beyond in Self.joining + [""] {
                        let text = before + separator + after + beyond
                        #expect(EntryName(text) == nil, "\(text.debugDescription)")
                    }
                }
            }
        }
    }

    /// A random text is a name only if no byte in it ends a name, and no two different texts make equal names.
    @Test(arguments: [UInt64(1), 2, 3, 4])
    func namesAreComparedByBytes(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let parts = Self.joining + ["a", ".", "..", "/", "\\", "\0", "é", "e", "\n", "\u{202E}", " ", "relay-part", "👩"]
        var names: [EntryName: [UInt8]] = [:]
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 0...6, using: &random)).map { _ in parts.randomElement(using: &random) ?? "" }.joined()
            let bytes = Array(text.utf8)
            let mayBe =
                !bytes.isEmpty && text.unicodeScalars.allSatisfy { !"/\\\0\n\u{202E}".unicodeScalars.contains($0) }
                && bytes != Array(".".utf8) && bytes != Array("..".utf8)
                && !(bytes.first == 0x2E && text.unicodeScalars.count > 1 && bytes.suffix(11) == Array(".relay-part".utf8)[...])
            let name = EntryName(text)
            #expect((name != nil) == mayBe, "seed \(seed): \(text.debugDescription)")
            guard let name else { continue }
            #expect(names.updateValue(bytes, forKey: name) ?? bytes == bytes, "seed \(seed): \(text.debugDescription)")
        }
    }

    @Test func canonicallyEquivalentNamesAreDifferent() throws {
        let (one, two) = (try #require(EntryName("e\u{301}")), try #require(EntryName("\u{E9}")))
        #expect(one.text == two.text)
        #expect(one != two && Set([one, two]).count == 2 && one < two)
    }

    @Test(arguments: [
        "a", String(repeating: "x", count: 200), String(repeating: "x", count: 201), String(repeating: "😀", count: 63) + "abc",
    ])
    func namesOfUnfinishedTransfersFit(text: String) throws {
        let name = try #require(EntryName(text))
        for own in [EntryName.part(of: name, from: "label"), .part(of: nil, from: "label")] {
            #expect(own.text.utf8.count <= 255 && own.text.hasPrefix(".") && own.text.hasSuffix("label.relay-part") && own.isPart)
            // A name from another device cannot be equal to it.
            #expect(EntryName(own.text) == nil)
        }
    }

    @Test func longNamesThatDifferAtTheEndHaveDifferentParts() {
        let long = String(repeating: "x", count: 250)
        func part(_ name: String) -> EntryName { .part(of: EntryName(name), from: "label") }
        #expect(part(long + "a") != part(long + "b"))
    }
}
