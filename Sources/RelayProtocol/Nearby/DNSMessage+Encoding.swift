// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension DNSMessage {
    /// The bytes of the message, with compressed names (RFC 1035 §4.1.4).
    ///
    /// The caller keeps to the limits: at most 65,535 of each section, and strings of at most 255 bytes. What is above is left out.
    package func encoded() -> [UInt8] {
        var writer = DNSWriter()
        writer.number(id)
        // An answer has the bit "authoritative" (RFC 6762 §18.4).
        writer.number((isResponse ? 0x8400 : 0) | (isTruncated ? 0x0200 : 0))
        let sections = [answers, authorities, additionals].map { $0.prefix(Int(UInt16.max)) }
        let questions = questions.prefix(Int(UInt16.max))
        for count in [questions.count] + sections.map(\.count) { writer.number(UInt16(count)) }
        for question in questions { writer.write(question) }
        for record in sections.joined() { writer.write(record) }
        return writer.bytes
    }
}

extension DNSRecord.Content {
    /// The bytes of the content alone.
    package var encoded: [UInt8] {
        var writer = DNSWriter()
        writer.write(self)
        return writer.bytes
    }
}

private struct DNSWriter {
    private(set) var bytes: [UInt8] = []
    /// Where each name begins, if a pointer can lead there.
    private var places: [DNSName: UInt16] = [:]

    mutating func number(_ number: UInt16) { bytes += [UInt8(number >> 8), UInt8(number & 0xFF)] }

    mutating func write(_ question: DNSQuestion) {
        name(question.name)
        number(question.type.rawValue)
        number(question.wantsUnicast ? 0x8001 : 1)
    }

    mutating func write(_ record: DNSRecord) {
        name(record.name)
        number(record.kind.rawValue)
        number(record.isUnique ? 0x8001 : 1)
        number(UInt16(record.timeToLive >> 16))
        number(UInt16(record.timeToLive & 0xFFFF))
        let length = bytes.count
        number(0)
        write(record.content)
        let size = UInt16(clamping: bytes.count - length - 2)
        bytes[length] = UInt8(size >> 8)
        bytes[length + 1] = UInt8(size & 0xFF)
    }

    mutating func write(_ content: DNSRecord.Content) {
        switch content {
        case .address(let address): bytes += address.bytes
        case .pointer(let target): name(target)
        case .service(let port, let target):
            number(0)
            number(0)
            number(port)
            name(target)
        case .text(let strings):
            // A record without strings has an empty one (RFC 6763 §6.1).
            for string in strings.isEmpty ? [[]] : strings {
                let string = string.prefix(255)
                bytes.append(UInt8(string.count))
                bytes += string
            }
        case .other(_, let content): bytes += content
        }
    }

    private mutating func name(_ name: DNSName) {
        var rest: DNSName? = name
        while let current = rest, let label = current.labels.first {
            if let place = places[current] { return number(0xC000 | place) }
            if bytes.count < 0x4000 { places[current] = UInt16(bytes.count) }
            bytes.append(UInt8(label.count))
            bytes += label
            rest = current.parent
        }
        bytes.append(0)
    }
}
