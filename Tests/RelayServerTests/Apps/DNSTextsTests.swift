// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayServer

/// TXT records in the answers of name servers.
@Suite struct DNSTextsTests {
    /// An answer to one question with the records, whose names are pointers to the question's.
    private static func answer(_ records: [(type: UInt8, data: [UInt8])]) -> [UInt8] {
        let name: [UInt8] = [4] + Array("apps".utf8) + [7] + Array("example".utf8) + [0]
        var bytes: [UInt8] = [0x12, 0x34, 0x81, 0x80, 0, 1, 0, UInt8(records.count), 0, 0, 0, 0] + name + [0, 16, 0, 1]
        for record in records {
            bytes += [0xC0, 12, 0, record.type, 0, 1, 0, 0, 0, 60, UInt8(record.data.count >> 8), UInt8(record.data.count & 0xFF)]
            bytes += record.data
        }
        return bytes
    }

    private static func text(_ parts: String...) -> [UInt8] { parts.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) } }

    @Test func recordsAreRead() {
        let bytes = Self.answer([(16, Self.text("v=spf1 -all")), (5, [0xC0, 12]), (16, Self.text("device-", "relay=abc"))])
        #expect(DNSTexts.read(bytes).map { String(decoding: $0, as: UTF8.self) } == ["v=spf1 -all", "device-relay=abc"])
    }

    @Test func emptyAnswerHasNoTexts() { #expect(DNSTexts.read(Self.answer([])).isEmpty) }

    @Test func stringThatIsTooLongIsNoText() { #expect(DNSTexts.read(Self.answer([(16, [5, 65, 66])])).isEmpty) }

    @Test func cutAnswerHasTheRecordsBeforeTheCut() {
        let bytes = Self.answer([(16, Self.text("first")), (16, Self.text("second"))])
        for count in bytes.indices { #expect(DNSTexts.read(bytes.prefix(count)).count < 2) }
        #expect(DNSTexts.read(bytes.dropLast()).count == 1)
    }

    @Test func anyBytesAreReadWithoutATrap() {
        var generator = SeededGenerator(seed: 7)
        let valid = Self.answer([(16, Self.text("device-relay=abc"))])
        for _ in 0..<2_000 {
            var bytes = valid
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                bytes[Int.random(in: bytes.indices, using: &generator)] = UInt8.random(in: .min ... .max, using: &generator)
            }
            #expect(DNSTexts.read(bytes.prefix(Int.random(in: 0...bytes.count, using: &generator))).count <= bytes.count)
        }
    }
}
