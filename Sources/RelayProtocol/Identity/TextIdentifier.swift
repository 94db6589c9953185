// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An identifier that travels as its text form, in JSON and in CBOR alike.
public protocol TextIdentifier: Hashable, Sendable, Codable, Comparable, LosslessStringConvertible {}

extension TextIdentifier {
    /// Reads the text form.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let identifier = Self(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "This text is no \(Self.self).")
        }
        self = identifier
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
