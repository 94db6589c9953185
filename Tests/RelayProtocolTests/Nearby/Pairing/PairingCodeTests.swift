// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct PairingCodeTests {
    @Test(arguments: [
        ("12345678", "1234 5678"), ("1234 5678", "1234 5678"), ("1234-5678", "1234 5678"), (" 1 2 3 4 - 5 6 7 8 ", "1234 5678"),
        ("12 34 56 78", "1234 5678"), ("00000000", "0000 0000"), ("0000-0042", "0000 0042"), ("99999999", "9999 9999"),
    ])
    func typedCodesAreRead(typed: String, text: String) throws {
        #expect(try #require(PairingCode(parsing: typed)).text == text)
    }

    @Test(arguments: [
        "", " ", "-", "123456", "1234567", "123456789", "123-45678", "12345-678", "-12345678", "12345678-", "1234--5678", "1234-56-78",
        "1234\u{2013}5678", "1234.5678", "1234_5678", "1234\u{A0}5678", "1234\t5678", "12345678\n", "+12345678", "-1234567", "1234567a",
        "0x123456", "\u{661}\u{662}\u{663}\u{664}\u{665}\u{666}\u{667}\u{668}", "１２３４５６７８", "1234567\u{8}", "12345678\0",
        "12345678\u{301}", "12345678" + String(repeating: " ", count: 57), "18446744073709551616",
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
        for text in ["00000000", "00000001", "67108863", "67108864", "99999999", "12345678"] {
            let bits = try #require(PairingCode(parsing: text)).roundBits
            #expect(bits.count == PairingCode.bits)
            #expect(bits.reduce(0) { $0 * 2 + ($1 ? 1 : 0) } == Int(text))
        }
        // So many are needed, and no more.
        #expect(1 << PairingCode.bits >= 100_000_000 && 1 << (PairingCode.bits - 1) < 100_000_000)
    }

    @Test func codesAreSpreadOverAllNumbers() {
        var random = SeededGenerator(seed: 7)
        var counts: [Character: Int] = [:]
        for _ in 0..<10_000 { counts[PairingCode(using: &random).text.first ?? " ", default: 0] += 1 }
        #expect(counts.count == 10 && counts.values.allSatisfy { (800...1_200).contains($0) }, "\(counts)")
    }

    @Test func digitsAreNotPrinted() throws {
        let code = try #require(PairingCode(parsing: "98765432"))
        var dumped = ""
        dump(code, to: &dumped)
        for text in ["\(code)", String(reflecting: code), dumped, "\([code])"] { #expect(!text.contains("98") && !text.contains("5432")) }
    }
}
