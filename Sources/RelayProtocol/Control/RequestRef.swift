// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Names a request on one control channel, so that its answer finds it: 1 … 2^53 − 1, chosen by whoever asks.
package struct RequestRef: Hashable, Sendable, Codable, Comparable, CustomStringConvertible {
    package let number: Int64

    /// The first one a channel uses.
    package static let first = RequestRef(unchecked: 1)

    /// `nil` outside of 1 … 2^53 − 1.
    package init?(_ number: Int64) {
        guard number > 0, number < Milliseconds.end else { return nil }
        self.number = number
    }

    private init(unchecked number: Int64) { self.number = number }

    /// The one after this; begins anew after the last.
    package var next: RequestRef { RequestRef(number + 1) ?? .first }

    package var description: String { String(number) }

    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let ref = RequestRef(try container.decode(Int64.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "a ref is between 1 and 2^53 - 1")
        }
        self = ref
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(number)
    }
}

/// How time stands on the control channel: a duration, or a moment of the relay's clock since 1970. Below 2^53, so that
/// every JSON reader holds it exactly.
package struct Milliseconds: Hashable, Sendable, Codable, Comparable, ExpressibleByIntegerLiteral, CustomStringConvertible {
    static let end: Int64 = 1 << 53

    package let count: Int64

    /// The nearest value there is.
    package init(clamping count: some BinaryInteger) { self.init(clamping: Int64(clamping: count)) }

    /// The same, without a generic call from another module for every message.
    package init(clamping count: Int64) { self.count = min(max(count, 0), Milliseconds.end - 1) }

    package init(integerLiteral value: Int64) { self.init(clamping: value) }

    package var description: String { "\(count) ms" }

    package static func < (left: Self, right: Self) -> Bool { left.count < right.count }

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
