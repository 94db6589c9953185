// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CResolver
import Dispatch

/// The TXT records of a name, from the system's resolver.
package enum DNSTexts {
    /// The maximum size of an answer.
    private static let answerBytes = 16 << 10

    /// - Returns: The text of each record; empty if there is none or no name server answers.
    static func query(_ name: String) async -> [[UInt8]] {
        // The resolver blocks, for up to 30 seconds by default.
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: texts(of: name)) }
        }
    }

    private static func texts(of name: String) -> [[UInt8]] {
        var answer = [UInt8](repeating: 0, count: answerBytes)
        let length = answer.withUnsafeMutableBufferPointer { buffer in
            // The final dot keeps the resolver from adding the machine's own domains.
            cresolver_query_txt(name + ".", buffer.baseAddress, CInt(buffer.count))
        }
        guard length > 0 else { return [] }
        return read(answer.prefix(Int(length)))
    }

    /// Reads the TXT records of an answer (RFC 1035 §4.1). An answer with a fault has the records before it.
    package static func read(_ answer: some Collection<UInt8>) -> [[UInt8]] {
        var reader = Reader(bytes: Array(answer))
        // Id and flags.
        guard reader.skip(4), let questions = reader.number(), let answers = reader.number(), reader.skip(4) else { return [] }
        for _ in 0..<questions { guard reader.skipName(), reader.skip(4) else { return [] } }
        var texts: [[UInt8]] = []
        for _ in 0..<answers {
            guard reader.skipName(), let type = reader.number(), let recordClass = reader.number(), reader.skip(4),
                let length = reader.number(), let data = reader.bytes(length)
            else { return texts }
            guard type == 16, recordClass == 1, let text = joined(data) else { continue }
            texts.append(text)
        }
        return texts
    }

    /// The strings of one record, joined.
    private static func joined(_ data: [UInt8]) -> [UInt8]? {
        var (text, reader) = ([UInt8](), Reader(bytes: data))
        while !reader.isAtEnd {
            guard let count = reader.byte(), let part = reader.bytes(Int(count)) else { return nil }
            text += part
        }
        return text
    }

    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        var isAtEnd: Bool { position == bytes.count }

        mutating func byte() -> UInt8? { bytes(1)?.first }

        mutating func number() -> Int? { bytes(2).map { Int($0[0]) << 8 | Int($0[1]) } }

        mutating func bytes(_ count: Int) -> [UInt8]? {
            guard count <= bytes.count - position else { return nil }
            defer { position += count }
            return Array(bytes[position..<position + count])
        }

        mutating func skip(_ count: Int) -> Bool { bytes(count) != nil }

        /// Skips labels until the root or a pointer, which ends a name.
        mutating func skipName() -> Bool {
            while let length = byte() {
                switch length {
                case 0: return true
                case 1...63: guard skip(Int(length)) else { return false }
                case 0xC0...0xFF: return skip(1)
                default: return false
                }
            }
            return false
        }
    }
}
