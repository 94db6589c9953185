// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct PairingCodeTests {
    @Test(arguments: [
        ("123456", "123 456"), ("123 456", "123 456"), ("123-456", "123 456"), (" 1 2 3 - 4 5 6 ", "123 456"), ("000000", "000 000"),
        ("000-042", "000 042"), ("999999", "999 999"),
    ])
    func typedCodesAreRead(typed: String, text: String) throws {
        #expect(try #require(PairingCode(parsing: typed)).text == text)
    }

    @Test(arguments: [
        "", " ", "-", "12345", "1234567", "12-3456", "1234-56", "-123456", "123456-", "123--456", "123-4-56", "123\u{2013}456", "123.456",
        "123_456", "123\u{A0}456", "123\t456", "123456\n", "+123456", "-12345", "12345a", "0x1234",
        "\u{661}\u{662}\u{663}\u{664}\u{665}\u{666}",
        "１２３４５６", "12345\u{6}", "123456\0", "123456\u{301}", "123456" + String(repeating: " ", count: 60), "18446744073709551616",
    ])
    func everythingElseIsRefused(typed: String) { #expect(PairingCode(parsing: typed) == nil) }

    @Test(arguments: 0..<10 as Range<UInt64>) func codesRoundTrip(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            let code = PairingCode(using: &random)
            #expect(PairingCode(parsing: code.text) == code)
            for variant in TextVariants.texts(of: code.text, 10, using: &random) {
                guard let read = PairingCode(parsing: variant) else { continue }
                #expect(variant.utf8.filter { (0x30...0x39).contains($0) } == code.text.utf8.filter { $0 != 0x20 } || read != code)
            }
        }
    }

    @Test func bitsAreThoseOfTheNumber() throws {
        for text in ["000000", "000001", "524287", "524288", "999999", "123456"] {
            let bits = try #require(PairingCode(parsing: text)).roundBits
            #expect(bits.count == PairingCode.bits)
            #expect(bits.reduce(0) { $0 * 2 + ($1 ? 1 : 0) } == Int(text))
        }
        // So many are needed, and no more.
        #expect(1 << PairingCode.bits >= 1_000_000 && 1 << (PairingCode.bits - 1) < 1_000_000)
    }

    @Test func codesAreSpreadOverAllNumbers() {
        var random = SeededGenerator(seed: 7)
        var counts: [Character: Int] = [:]
        for _ in 0..<10_000 { counts[PairingCode(using: &random).text.first ?? " ", default: 0] += 1 }
        #expect(counts.count == 10 && counts.values.allSatisfy { (800...1_200).contains($0) }, "\(counts)")
    }

    @Test func digitsAreNotPrinted() throws {
        let code = try #require(PairingCode(parsing: "987654"))
        var dumped = ""
        dump(code, to: &dumped)
        for text in ["\(code)", String(reflecting: code), dumped, "\([code])"] { #expect(!text.contains("98") && !text.contains("654")) }
    }
}
