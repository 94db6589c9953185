// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Something a key signs: a deterministic CBOR map.
package protocol SignedPayload: Codable, Hashable, Sendable {
    static var purpose: Purpose { get }
    /// As `ValueSetDecoder` reads it, unless the type has a quicker way.
    init(reading set: ValueSet) throws
    /// Checks what the types alone do not.
    func validate(limits: Limits) throws(RecordError)
}

extension SignedPayload {
    package init(reading set: ValueSet) throws { self = try ValueSetDecoder().decode(Self.self, from: set) }
}

/// A payload, its signature, and the bytes that hold both. Only the bytes travel: whoever forwards a record forwards
/// them as they are, and whoever holds a `Signed` has checked its signature.
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

    /// Reads a signed payload and checks its signature.
    /// - Parameter key: the key that must have signed it, found from the payload, which is not to be believed yet.
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

/// A signed payload as it came: nobody has checked its signature, so it is not to be believed.
package struct Unverified<Payload: SignedPayload>: Hashable, Sendable {
    package let payload: Payload
    /// As in `Signed`.
    package let encoded: [UInt8]

    package init(decoding encoded: [UInt8]) throws(RecordError) {
        payload = try Envelope<Payload>(decoding: encoded).payload
        self.encoded = encoded
    }
}

/// What the bytes hold.
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

/// Why a signed record is refused.
package enum RecordError: Error, Hashable, Sendable {
    /// The bytes are not such a record.
    case malformed
    /// Another key signed it, or it was changed.
    case badSignature
    /// It belongs to another account.
    case wrongAccount
    /// It speaks of another endpoint than the one it came for.
    case wrongEndpoint
    /// The system key did not sign that this endpoint is part of its device.
    case notPartOfSystem
    /// A newer version is known.
    case outdated(known: UInt64, offered: UInt64)
    /// The same version is known with other content.
    case versionReused(UInt64)
    /// A field holds what it may not, such as a control character in a name.
    case invalidField(String)
    /// More than a limit allows.
    case limitExceeded(LimitExceeded)
}

extension Limits {
    /// `check` for records.
    func checkField(_ limit: Limit, _ requested: Int) throws(RecordError) {
        try check(limit, requested, as: RecordError.limitExceeded)
    }

    /// A version: from 1 to what every JSON reader and database holds exactly.
    func checkVersion(_ version: UInt64) throws(RecordError) {
        guard WireNumber.range.contains(version) else { throw .invalidField("version") }
    }

    /// A name for people: some visible characters, no control or bidirectional ones, not too long.
    func checkDisplayName(_ name: String, field: String, mayBeEmpty: Bool = false) throws(RecordError) {
        // Bytes first: counting the characters of an endless name is work a stranger must not order.
        try checkField(.displayNameCharacters, name.utf8.count > 16 * self[.displayNameCharacters] ? name.utf8.count : name.count)
        guard DisplayText.isPlain(name), DisplayText.isVisible(name) || mayBeEmpty && name.isEmpty else { throw .invalidField(field) }
    }

    /// A text for programs.
    func checkIdentifier(_ text: String, field: String) throws(RecordError) {
        guard ProgramText.isValid(text) else { throw .invalidField(field) }
    }
}
