// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A duration, or a time since 1970, in milliseconds. The range is 0 to 2^53 - 1, so that every JSON parser represents the value exactly.
package struct Milliseconds: Hashable, Sendable, Comparable, ExpressibleByIntegerLiteral, CustomStringConvertible {
    static let end: Int64 = 1 << 53

    package let count: Int64

    /// The nearest value in the range.
    package init(clamping count: some BinaryInteger) { self.init(clamping: Int64(clamping: count)) }

    /// A non-generic overload. It avoids a generic call across modules for every message.
    package init(clamping count: Int64) { self.count = min(max(count, 0), Milliseconds.end - 1) }

    package init(integerLiteral value: Int64) { self.init(clamping: value) }

    package var description: String { "\(count) ms" }

    package static func < (left: Self, right: Self) -> Bool { left.count < right.count }
}

extension Milliseconds: JSONCodable {
    package init(json: JSONValue) throws(JSONError) {
        let count = try json.integer()
        guard count >= 0, count < Milliseconds.end else { throw json.invalid }
        self.count = count
    }

    package func write(to json: inout JSONWriter) { json.integer(count) }
}

extension Milliseconds: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let count = try container.decode(Int64.self)
        guard count >= 0, count < Milliseconds.end else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "milliseconds are between 0 and 2^53 - 1")
        }
        self.count = count
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(count)
    }
}

/// The range of versions and counters on the wire: JSON readers, and databases with signed integers, represent all of these exactly.
enum WireNumber {
    static let range: ClosedRange<UInt64> = 1...(1 << 53 - 1)
}
