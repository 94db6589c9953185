// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why bytes are no message of multicast DNS.
package enum DNSError: Error, Hashable, Sendable {
    case tooLong
    case truncated
    case tooManyRecords
    /// A label, a pointer or the length of a name is not valid.
    case invalidName
    /// The content of a record does not fit its type.
    case invalidRecord
    /// An operation or a result that multicast DNS does not use (RFC 6762 §18.3, §18.11).
    case notMulticastDNS
}

extension DNSMessage {
    /// Reads a message. Questions and records of other classes are left out.
    package init(decoding bytes: [UInt8]) throws(DNSError) {
        guard bytes.count <= Self.maximumBytes else { throw .tooLong }
        var reader = DNSReader(bytes)
        let id = try reader.number()
        let flags = try reader.number()
        guard flags & 0x7800 == 0, flags & 0x000F == 0 else { throw .notMulticastDNS }
        self.init(isResponse: flags & 0x8000 != 0)
        self.id = id
        isTruncated = flags & 0x0200 != 0
        var counts: [Int] = []
        for _ in 0..<4 { counts.append(Int(try reader.number())) }
        guard counts.reduce(0, +) <= Self.maximumRecords else { throw .tooManyRecords }
        for _ in 0..<counts[0] {
            if let question = try reader.question() { questions.append(question) }
        }
        answers = try reader.records(counts[1])
        authorities = try reader.records(counts[2])
        additionals = try reader.records(counts[3])
    }
}

extension DNSRecord.Content {
    /// Reads the content of a record alone.
    package init(decoding bytes: [UInt8], of kind: DNSRecord.Kind) throws(DNSError) {
        guard bytes.count <= DNSMessage.maximumBytes else { throw .tooLong }
        var reader = DNSReader(bytes)
        self = try reader.content(of: kind, until: bytes.count)
        guard reader.isAtEnd else { throw .invalidRecord }
    }
}

private struct DNSReader {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    /// The high bit of a class: a question that may be answered by unicast, or a record that is unique.
    private static let topBit: UInt16 = 0x8000
    private static let internet: UInt16 = 1
    private static let anyClass: UInt16 = 255

    mutating func number() throws(DNSError) -> UInt16 {
        let field = try take(2)
        return field.reduce(0) { $0 << 8 | UInt16($1) }
    }

    private mutating func take(_ count: Int) throws(DNSError) -> ArraySlice<UInt8> {
        guard count <= bytes.count - position else { throw .truncated }
        defer { position += count }
        return bytes[position..<position + count]
    }

    mutating func question() throws(DNSError) -> DNSQuestion? {
        let name = try name()
        let kind = DNSRecord.Kind(rawValue: try number())
        let `class` = try number()
        guard [Self.internet, Self.anyClass].contains(`class` & ~Self.topBit) else { return nil }
        return DNSQuestion(name, kind, wantsUnicast: `class` & Self.topBit != 0)
    }

    mutating func records(_ count: Int) throws(DNSError) -> [DNSRecord] {
        var records: [DNSRecord] = []
        for _ in 0..<count {
            if let record = try record() { records.append(record) }
        }
        return records
    }

    private mutating func record() throws(DNSError) -> DNSRecord? {
        let name = try name()
        let kind = DNSRecord.Kind(rawValue: try number())
        let `class` = try number()
        let timeToLive = UInt32(try number()) << 16 | UInt32(try number())
        let length = Int(try number())
        let end = position + length
        guard end <= bytes.count else { throw .truncated }
        let content = try content(of: kind, until: end)
        guard position == end else { throw .invalidRecord }
        guard `class` & ~Self.topBit == Self.internet else { return nil }
        return DNSRecord(name, content, timeToLive: timeToLive, isUnique: `class` & Self.topBit != 0)
    }

    mutating func content(of kind: DNSRecord.Kind, until end: Int) throws(DNSError) -> DNSRecord.Content {
        switch kind {
        case .a, .aaaa:
            // An IPv4 address in a record of IPv6 is no address of the network.
            let field = Array(try take(end - position))
            guard field.count == (kind == .a ? 4 : 16), let address = IPAddress(bytes: field), address.bytes.count == field.count else {
                throw .invalidRecord
            }
            return .address(address)
        case .ptr: return .pointer(try name())
        case .srv:
            // Priority and weight choose among several servers of one service. Here each instance has one.
            _ = try take(4)
            return .service(port: try number(), target: try name())
        case .txt:
            var strings: [[UInt8]] = []
            while position < end {
                let count = Int(try take(1).first ?? 0)
                guard count <= end - position else { throw .invalidRecord }
                strings.append(Array(try take(count)))
            }
            // No string is the same as an empty one (RFC 6763 §6.1).
            return .text(strings.isEmpty ? [[]] : strings)
        default: return .other(kind, Array(try take(end - position)))
        }
    }

    /// More than any writer needs. Each one leads back to a longer part of a name.
    private static let maximumPointers = 16

    /// Reads a name. A pointer leads back, before the part of the name that it ends, so a name ends.
    private mutating func name() throws(DNSError) -> DNSName {
        var labels: [[UInt8]] = []
        var (place, limit, length) = (position, position, 0)
        var end: Int?
        var pointers = 0
        while true {
            guard place < bytes.count else { throw .truncated }
            let head = bytes[place]
            switch head >> 6 {
            case 0:
                let next = place + 1 + Int(head)
                guard head > 0 else {
                    position = end ?? next
                    guard let name = DNSName(labels) else { throw .invalidName }
                    return name
                }
                guard next <= bytes.count else { throw .truncated }
                length += 1 + Int(head)
                guard length < DNSName.maximumBytes else { throw .invalidName }
                labels.append(Array(bytes[place + 1..<next]))
                place = next
            case 3:
                guard place + 1 < bytes.count else { throw .truncated }
                let target = Int(head & 0x3F) << 8 | Int(bytes[place + 1])
                pointers += 1
                guard target < limit, pointers <= Self.maximumPointers else { throw .invalidName }
                end = end ?? place + 2
                (place, limit) = (target, target)
            default: throw .invalidName
            }
        }
    }
}
