// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A payload that a key signs, encoded as a deterministic CBOR map.
package protocol SignedPayload: Codable, Hashable, Sendable {
    static var purpose: Purpose { get }
    /// Decodes the payload: with `ValueSetDecoder`, unless the type has a faster way.
    init(reading set: ValueSet) throws
    /// Checks constraints that the types do not express.
    func validate(limits: Limits) throws(RecordError)
}

extension SignedPayload {
    package init(reading set: ValueSet) throws { self = try ValueSetDecoder().decode(Self.self, from: set) }
}

/// A payload, its signature, and the bytes that contain both. Records are forwarded as these bytes. A `Signed` value
/// always has a valid signature.
package struct Signed<Payload: SignedPayload>: Hashable, Sendable {
    package let payload: Payload
    /// The CBOR map `{"body": bytes, "signature": 64 bytes}`.
    package let encoded: [UInt8]

    /// Signs a payload.
    package init(_ payload: Payload, key: some SigningKey) throws {
        try payload.validate(limits: Limits())
        let body = try ValueSetEncoder().encode(payload).encodedBytes()
        let signature = try key.sign(body, for: Payload.purpose)
        self.payload = payload
        self.encoded = try (["body": .data(body), "signature": .data(signature)] as ValueSet).encodedBytes()
    }

    /// Decodes a signed payload and checks its signature.
    /// - Parameter key: Returns the key that must have signed the payload. The payload is not authenticated yet.
    package init(
        verifying encoded: [UInt8],
        limits: Limits = Limits(),
        key: (Payload) throws(RecordError) -> SigningPublicKey
    ) throws(RecordError) {
        let envelope = try Envelope<Payload>(decoding: encoded)
        let (payload, body) = (envelope.payload, envelope.body)
        guard try key(payload).isValid(envelope.signature, over: body, for: Payload.purpose) else { throw .badSignature }
        try payload.validate(limits: limits)
        self.payload = payload
        self.encoded = encoded
    }
}

/// A decoded payload whose signature is not checked. Its content is not trustworthy.
package struct Unverified<Payload: SignedPayload>: Hashable, Sendable {
    package let payload: Payload
    /// As in `Signed`.
    package let encoded: [UInt8]

    package init(decoding encoded: [UInt8]) throws(RecordError) {
        payload = try Envelope<Payload>(decoding: encoded).payload
        self.encoded = encoded
    }
}

/// The decoded bytes.
private struct Envelope<Payload: SignedPayload> {
    let payload: Payload
    /// The payload's bytes.
    let body: [UInt8]
    let signature: [UInt8]

    init(decoding encoded: [UInt8]) throws(RecordError) {
        guard let envelope = try? ValueSet(decoding: encoded), envelope.count == 2, let body = envelope["body"]?.data,
            let signature = envelope["signature"]?.data, let set = try? ValueSet(decoding: body),
            let payload = try? Payload(reading: set)
        else {
            throw .malformed
        }
        self.payload = payload
        self.body = body
        self.signature = signature
    }
}

/// Why a signed record is rejected.
package enum RecordError: Error, Hashable, Sendable {
    /// The bytes are not a valid record.
    case malformed
    /// Another key signed it, or it was modified.
    case badSignature
    /// It belongs to another account.
    case wrongAccount
    /// It describes another endpoint than the expected one.
    case wrongEndpoint
    /// The system key's signature over the membership in the device is invalid.
    case notPartOfSystem
    /// A newer version is known.
    case outdated(known: UInt64, offered: UInt64)
    /// The same version is known with other content.
    case versionReused(UInt64)
    /// A field has an invalid value, such as a control character in a name.
    case invalidField(String)
    /// A limit is exceeded.
    case limitExceeded(LimitExceeded)
}

extension Limits {
    /// Calls `check` and throws a `RecordError`.
    func checkField(_ limit: Limit, _ requested: Int) throws(RecordError) {
        try check(limit, requested, as: RecordError.limitExceeded)
    }

    /// Checks a version: from 1 to the largest integer that all JSON readers and databases represent exactly.
    func checkVersion(_ version: UInt64) throws(RecordError) {
        guard WireNumber.range.contains(version) else { throw .invalidField("version") }
    }

    /// Checks a display name: it has a visible character, no control or bidirectional characters, and a limited length.
    package func checkDisplayName(_ name: String, field: String, mayBeEmpty: Bool = false) throws(RecordError) {
        // The byte length is checked first: counting the characters of a very long name is expensive, and the name is not authenticated.
        try checkField(.displayNameCharacters, name.utf8.count > 16 * self[.displayNameCharacters] ? name.utf8.count : name.count)
        guard DisplayText.isPlain(name), DisplayText.isVisible(name) || mayBeEmpty && name.isEmpty else { throw .invalidField(field) }
    }

    /// Checks a text that programs compare.
    package func checkIdentifier(_ text: String, field: String) throws(RecordError) {
        guard ProgramText.isValid(text) else { throw .invalidField(field) }
    }
}
