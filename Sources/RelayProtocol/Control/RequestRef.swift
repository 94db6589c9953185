// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Identifies a request on one control channel, so that its answer can be matched: 1 … 2^53 − 1, chosen by the endpoint.
package struct RequestRef: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let number: Int64

    /// The first number on a channel.
    package static let first = RequestRef(unchecked: 1)

    /// `nil` outside the range 1 … 2^53 − 1.
    package init?(_ number: Int64) {
        guard number > 0, number < Milliseconds.end else { return nil }
        self.number = number
    }

    private init(unchecked number: Int64) { self.number = number }

    /// The next number. After the last one it starts again at 1.
    package var next: RequestRef { RequestRef(number + 1) ?? .first }

    package var description: String { String(number) }

    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

extension RequestRef: JSONCodable {
    package init(json: JSONValue) throws(JSONError) {
        guard let ref = RequestRef(try json.integer()) else { throw json.invalid }
        self = ref
    }

    package func write(to json: inout JSONWriter) { json.integer(number) }
}
