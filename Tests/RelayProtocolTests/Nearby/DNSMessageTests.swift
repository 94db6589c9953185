// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct DNSMessageTests {
    private static func name(_ text: String) throws -> DNSName { try #require(DNSName(text)) }

    /// The example of RFC 1035 §4.1.4, as records: F.ISI.ARPA, FOO.F.ISI.ARPA, ARPA.
    @Test func compressedNamesAreRead() throws {
        var bytes: [UInt8] = [0, 0, 0x84, 0, 0, 0, 0, 3, 0, 0, 0, 0]
        let first = UInt8(bytes.count)
        for label in ["F", "ISI", "ARPA"] { bytes += [UInt8(label.utf8.count)] + Array(label.utf8) }
        bytes.append(0)
        let address: [UInt8] = [0, 1, 0x80, 1, 0, 0, 0, 120, 0, 4, 192, 0, 2, 1]
        bytes += address + [3, 0x46, 0x4F, 0x4F, 0xC0, first]
        bytes += address + [0xC0, first + 6] + address
        let message = try DNSMessage(decoding: bytes)
        #expect(message.isResponse)
        #expect(try message.answers.map(\.name) == [Self.name("f.isi.arpa"), Self.name("foo.f.isi.arpa"), Self.name("arpa")])
        #expect(message.answers.allSatisfy { $0.isUnique && $0.timeToLive == 120 && $0.kind == .a })
        #expect(message.encoded() == bytes)
    }

    @Test func namesAreEqualWithoutRegardToCase() throws {
        #expect(try Self.name("_Device-Relay._tcp.LOCAL") == Self.name("_device-relay._tcp.local"))
        #expect(try Self.name("a\u{E4}").description == "a\\195\\164.")
        #expect(DNSName("") == nil && DNSName("a..b") == nil && DNSName(String(repeating: "a", count: 64)) == nil)
        let long = Array(repeating: [UInt8](repeating: 97, count: 63), count: 4)
        #expect(DNSName(long) == nil)
        #expect(DNSName(Array(long.dropLast()) + [[UInt8](repeating: 97, count: 61)])?.labels.count == 4)
        #expect(DNSName([])?.parent == nil)
    }

    @Test(arguments: [
        ([UInt8](), DNSError.truncated),
        ([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0], .truncated),
        ([0, 0, 0x28, 0] + [UInt8](repeating: 0, count: 8), .notMulticastDNS),
        ([0, 0, 0x84, 3] + [UInt8](repeating: 0, count: 8), .notMulticastDNS),
        ([0, 0, 0, 0, 0, 100, 0, 29, 0, 0, 0, 0], .tooManyRecords),
        ([UInt8](repeating: 0, count: 9_001), .tooLong),
        // A pointer to itself, forwards, and of a reserved kind.
        ([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xC0, 12, 0, 1, 0, 1], .invalidName),
        ([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xC0, 14, 0, 0, 1, 0, 1], .invalidName),
        ([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 1, 0, 1], .invalidName),
        // A label that runs over the end.
        ([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 63, 97, 0, 0, 1, 0, 1], .truncated),
        // A label, and a pointer to its own start.
        ([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 97, 0xC0, 12, 0, 1, 0, 1], .invalidName),
        // An address of three bytes, an IPv4 address as IPv6, a string over the end of its record.
        ([0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 3, 1, 2, 3], .invalidRecord),
        (
            [0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 28, 0, 1, 0, 0, 0, 0, 0, 16] + [UInt8](repeating: 0, count: 10)
                + [0xFF, 0xFF, 10, 0, 0, 1], .invalidRecord
        ),
        ([0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 16, 0, 1, 0, 0, 0, 0, 0, 3, 9, 1, 2], .invalidRecord),
        // A name that is longer than its record.
        ([0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 12, 0, 1, 0, 0, 0, 0, 0, 1, 1, 97, 0], .invalidRecord),
    ])
    func hostileBytesAreRefused(_ bytes: [UInt8], _ error: DNSError) {
        #expect(throws: error) { try DNSMessage(decoding: bytes) }
    }

    @Test func otherClassesAreLeftOut() throws {
        let question: [UInt8] = [0, 0, 1, 0, 3]
        let record: [UInt8] = [0, 0, 1, 0, 3, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]
        let message = try DNSMessage(decoding: [0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0] + question + record)
        #expect(message == DNSMessage(isResponse: false))
    }

    /// A record without a string is the same as one with an empty string (RFC 6763 §6.1).
    @Test func emptyTextIsAnEmptyString() throws {
        let header: [UInt8] = [0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0]
        let message = try DNSMessage(decoding: header + [1, 97, 0, 0, 16, 0, 1, 0, 0, 0, 9, 0, 0])
        #expect(message.answers.map(\.content) == [.text([[]])])
        #expect(try DNSMessage(decoding: message.encoded()) == message)
    }

    @Test func whatIsWrittenIsRead() throws {
        for seed in 0..<Sweep.count(300 as UInt64, full: 100_000) {
            var random = SeededGenerator(seed: seed)
            let message = Self.message(&random)
            #expect(try DNSMessage(decoding: message.encoded()) == message, "seed \(seed)")
        }
    }

    /// Bytes that nearly are a message: no input traps, and what is read is within the limits.
    @Test func changedBytesNeverTrap() {
        for seed in 0..<Sweep.count(2_000 as UInt64, full: 1_000_000) {
            var random = SeededGenerator(seed: seed)
            var bytes = Self.message(&random).encoded()
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                switch Int.random(in: 0..<3, using: &random) {
                case 0 where !bytes.isEmpty: bytes[.random(in: bytes.indices, using: &random)] = .random(in: 0...255, using: &random)
                case 1 where !bytes.isEmpty: bytes.removeLast(.random(in: 1...bytes.count, using: &random))
                default: bytes.insert(.random(in: 0xC0...0xFF, using: &random), at: .random(in: 0...bytes.count, using: &random))
                }
            }
            guard let message = try? DNSMessage(decoding: bytes) else { continue }
            #expect(message.questions.count + message.records.count <= DNSMessage.maximumRecords, "seed \(seed)")
            #expect(message.records.allSatisfy { $0.name.labels.joined().count < DNSName.maximumBytes }, "seed \(seed)")
        }
    }

    private static func message(_ random: inout SeededGenerator) -> DNSMessage {
        let labels = ["local", "_tcp", "_device-relay", "host", "a.b", "\u{0}", "Wohnzimmer \u{FC}ber"].map { Array($0.utf8) }
        func name() -> DNSName {
            let labels = (0..<Int.random(in: 0...5, using: &random)).map { _ in labels.randomElement(using: &random) ?? [1] }
            return DNSName(labels) ?? .root
        }
        func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: 1...255, using: &random) } }
        func record() -> DNSRecord {
            let content: DNSRecord.Content =
                switch Int.random(in: 0..<6, using: &random) {
                case 0: IPAddress(bytes: bytes(4)).map { .address($0) } ?? .text([])
                case 1: IPAddress(bytes: bytes(16)).map { .address($0) } ?? .text([])
                case 2: .pointer(name())
                case 3: .service(port: .random(in: 0 ... .max, using: &random), target: name())
                case 4: .text((0..<Int.random(in: 1...4, using: &random)).map { _ in bytes(Int.random(in: 0...255, using: &random)) })
                default: .other(.init(rawValue: 47), bytes(Int.random(in: 0...20, using: &random)))
                }
            return DNSRecord(name(), content, timeToLive: .random(in: 0 ... .max, using: &random), isUnique: .random(using: &random))
        }
        var message = DNSMessage(isResponse: .random(using: &random))
        message.id = .random(in: 0 ... .max, using: &random)
        message.isTruncated = .random(using: &random)
        message.questions = (0..<Int.random(in: 0...3, using: &random)).map { _ in
            let kind = [DNSRecord.Kind.a, .aaaa, .any, .ptr, .srv, .txt].randomElement(using: &random) ?? .any
            return DNSQuestion(name(), kind, wantsUnicast: .random(using: &random))
        }
        message.answers = (0..<Int.random(in: 0...4, using: &random)).map { _ in record() }
        message.authorities = (0..<Int.random(in: 0...1, using: &random)).map { _ in record() }
        message.additionals = (0..<Int.random(in: 0...2, using: &random)).map { _ in record() }
        return message
    }
}
