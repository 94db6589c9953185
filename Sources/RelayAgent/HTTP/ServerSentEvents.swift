// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Reads server-sent events (WHATWG HTML, section 9.2.6) from pieces of any size, as far as the API uses them.
struct ServerSentEvents {
    enum Item: Hashable {
        case comment
        case event(type: String, data: String)
    }

    struct TooLong: Error {}

    /// The largest event, in bytes.
    static let largest = 4 << 20

    private var line: [UInt8] = []
    private var type = ""
    private var data: [UInt8] = []
    private var hasData = false

    /// - Throws: `TooLong`.
    mutating func take(_ bytes: ByteBufferView) throws(TooLong) -> [Item] {
        var items: [Item] = []
        var rest = bytes[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            try append(rest[..<end])
            rest = rest[rest.index(after: end)...]
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            if let item = try endLine() { items.append(item) }
            line.removeAll(keepingCapacity: true)
        }
        try append(rest)
        return items
    }

    private mutating func append(_ bytes: ByteBufferView) throws(TooLong) {
        guard bytes.count <= Self.largest - line.count else { throw TooLong() }
        line += bytes
    }

    private mutating func endLine() throws(TooLong) -> Item? {
        guard !line.isEmpty else {
            defer { (type, data, hasData) = ("", [], false) }
            return hasData ? .event(type: type.isEmpty ? "message" : type, data: String(decoding: data, as: UTF8.self)) : nil
        }
        let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard !parts[0].isEmpty else { return .comment }
        var value = parts.dropFirst().first ?? []
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        switch String(decoding: parts[0], as: UTF8.self) {
        case "event": type = String(decoding: value, as: UTF8.self)
        case "data":
            guard value.count < Self.largest - data.count else { throw TooLong() }
            if hasData { data.append(UInt8(ascii: "\n")) }
            data += value
            hasData = true
        default: break
        }
        return nil
    }
}
