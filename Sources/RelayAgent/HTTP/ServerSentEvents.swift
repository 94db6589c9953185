// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Reads server-sent events (WHATWG HTML, section 9.2.6) from pieces of any size, as far as the API uses them.
struct ServerSentEvents {
    struct Event: Hashable {
        var type: String
        var data: String
    }

    struct TooLong: Error {}

    /// The largest event, in bytes.
    static let largest = 4 << 20

    private var line: [UInt8] = []
    private var type = ""
    /// `nil` before the first line of data.
    private var data: [UInt8]?

    /// - Throws: `TooLong`.
    mutating func take(_ bytes: ByteBufferView) throws(TooLong) -> [Event] {
        var events: [Event] = []
        var rest = bytes[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            try append(rest[..<end])
            rest = rest[rest.index(after: end)...]
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            if let event = try endLine() { events.append(event) }
            line.removeAll(keepingCapacity: true)
        }
        try append(rest)
        return events
    }

    private mutating func append(_ bytes: ByteBufferView) throws(TooLong) {
        guard bytes.count <= Self.largest - line.count else { throw TooLong() }
        line += bytes
    }

    private mutating func endLine() throws(TooLong) -> Event? {
        guard !line.isEmpty else {
            defer { (type, data) = ("", nil) }
            return data.map { Event(type: type.isEmpty ? "message" : type, data: String(decoding: $0, as: UTF8.self)) }
        }
        let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        // A comment has no name, and is none of those below.
        var value = parts.dropFirst().first ?? []
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        switch String(decoding: parts[0], as: UTF8.self) {
        case "event": type = String(decoding: value, as: UTF8.self)
        case "data":
            guard value.count < Self.largest - (data?.count ?? 0) else { throw TooLong() }
            if data == nil { data = [] } else { data?.append(UInt8(ascii: "\n")) }
            // In place: many lines of one event are not copied for each.
            data? += value
        default: break
        }
        return nil
    }
}
