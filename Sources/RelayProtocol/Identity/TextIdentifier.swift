// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An identifier that JSON and CBOR encode in its text form.
package protocol TextIdentifier: Hashable, Sendable, Codable, Comparable, LosslessStringConvertible {}

extension TextIdentifier {
    /// Decodes the text form.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let identifier = Self(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "This text is no \(Self.self).")
        }
        self = identifier
    }

    /// Encodes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
