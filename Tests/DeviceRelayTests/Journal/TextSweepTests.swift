// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

/// The journal's rows that are looked up by a text: a row is found by its own text, byte for byte, and by no other.
@Suite(.timeLimit(.minutes(Sweep.isFull ? 600 : 10))) struct TextSweepTests {
    @Test func rowsAreFoundByTheirOwnTextOnly() async throws {
        var random = SeededGenerator(seed: Sweep.seed)
        let texts = TextVariants.texts(of: "Player K\u{E9}", Sweep.count(200, full: 20_000), using: &random)
        let directory = try TemporaryDirectory()
        let journal = try Journal(path: directory.path + "/journal.sqlite", endpoint: EndpointID(P256SigningKey().publicKey))
        let target = EndpointID(P256SigningKey().publicKey)
        try await journal.write { journal in
            var numbers: [[UInt8]: UInt64] = [:]
            for (index, text) in texts.enumerated() {
                let (bytes, what) = (Array(text.utf8), "\(text.debugDescription), seed \(Sweep.seed)" as Comment)
                if bytes.contains(0) {
                    // SQLite would take the text before it.
                    #expect(throws: (any Error).self, what) { try journal.nextNumber(to: target, appID: text, from: 1) }
                    #expect(throws: (any Error).self, what) { try journal.unansweredCommands(to: target, appID: text) }
                    #expect(throws: (any Error).self, what) { try journal.registration(of: text) }
                    #expect(throws: (any Error).self, what) { try journal.setRegistration([1], of: text) }
                    #expect(throws: (any Error).self, what) { try journal.removeRegistration(of: text) }
                    #expect(throws: (any Error).self, what) { try journal.setAccount(text) }
                    continue
                }
                // A new lane begins at this text's own number. A known one goes on.
                let first = UInt64(1_000_000 * (index + 1))
                let expected = numbers[bytes].map { max($0 + 1, first) } ?? first
                #expect(try journal.nextNumber(to: target, appID: text, from: first) == expected, what)
                #expect(try journal.registration(of: text) == (numbers[bytes] == nil ? nil : bytes), what)
                numbers[bytes] = expected
                try journal.setRegistration(bytes, of: text)
            }
            for (bytes, number) in numbers {
                let text = String(decoding: bytes, as: UTF8.self)
                #expect(try journal.nextNumber(to: target, appID: text, from: 1) == number + 1, "\(text.debugDescription)")
                #expect(try journal.registration(of: text) == bytes, "\(text.debugDescription)")
            }
            for bytes in numbers.keys.prefix(20) {
                try journal.removeRegistration(of: String(decoding: bytes, as: UTF8.self))
                numbers[bytes] = nil
                for other in numbers.keys { #expect(try journal.registration(of: String(decoding: other, as: UTF8.self)) == other) }
            }
        }
    }
}
