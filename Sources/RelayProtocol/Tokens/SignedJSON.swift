// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// A parsed JWS in compact serialization (RFC 7515 §7.1). Its signature is not checked.
package struct SignedJSON: Sendable {
    /// The size limit of tokens and proofs.
    package static let maximumBytes = 16 << 10

    package struct Header: JSONReadable, Encodable, Hashable, Sendable {
        package var alg: String
        package var typ: String?
        package var kid: String?
        package var jwk: JSONWebKey?
        /// Critical extensions. None is supported.
        package var crit: [String]?

        package init(alg: String, typ: String? = nil, kid: String? = nil, jwk: JSONWebKey? = nil) {
            self.alg = alg
            self.typ = typ
            self.kid = kid
            self.jwk = jwk
        }

        package init(json: JSONValue) throws(JSONError) {
            self.alg = try json.member("alg")
            self.typ = try json.optional("typ")
            self.kid = try json.optional("kid")
            self.jwk = try json.optional("jwk")
            self.crit = try json.optional("crit")
        }
    }

    package let header: Header
    package let payload: [UInt8]
    package let signature: [UInt8]
    /// The bytes that the signature covers.
    package let signed: [UInt8]

    package init(parsing text: String) throws(SignedJSONError) {
        guard text.utf8.count <= SignedJSON.maximumBytes else { throw .tooLarge }
        let bytes = Array(text.utf8)
        let parts = bytes.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64.url.decode(parts[0]), let payload = Base64.url.decode(parts[1]),
            let signature = Base64.url.decode(parts[2]), let parsed = try? Header(json: JSONValue(parsing: header))
        else { throw .malformed }
        guard parsed.crit == nil else { throw .unknownExtension }
        self.header = parsed
        self.payload = payload
        self.signature = signature
        self.signed = Array(bytes[..<parts[1].endIndex])
    }

    /// Decodes the payload.
    package func claims<Claims: JSONReadable>(_: Claims.Type) throws(SignedJSONError) -> Claims {
        guard let claims = try? Claims(json: JSONValue(parsing: payload)) else { throw .malformed }
        return claims
    }

    /// Signs claims with ES256, the only algorithm with which this project signs tokens.
    package static func sign(_ claims: some Encodable, header: Header, with key: some SigningKey) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let signed = try Base64.url.encode(encoder.encode(header)) + "." + Base64.url.encode(encoder.encode(claims))
        return try signed + "." + Base64.url.encode(key.signature(for: [UInt8](signed.utf8)))
    }
}

/// Why a text is not a valid JWS.
package enum SignedJSONError: Error, Hashable, Sendable {
    case tooLarge
    case malformed
    case unknownExtension
}

/// A time in tokens: seconds since 1970, optionally with a fraction (RFC 7519 §2).
package struct NumericDate: JSONReadable, Encodable, Hashable, Sendable {
    package let time: Milliseconds

    /// Truncated to whole seconds, which every reader supports.
    package init(_ time: Milliseconds) { self.time = Milliseconds(clamping: time.count / 1_000 * 1_000) }

    package init(json: JSONValue) throws(JSONError) {
        let seconds = try json.double()
        guard let count = Int64(exactly: (seconds * 1_000).rounded(.down)), count >= 0, count < Milliseconds.end else {
            throw json.invalid
        }
        self.time = Milliseconds(clamping: count)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(time.count / 1_000)
    }
}
