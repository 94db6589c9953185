// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

/// A sealed command: a header that the relay reads, a body that only the target can decrypt, and the sender's signature over both. The
/// sender makes the bytes once; every retry sends exactly these bytes.
package struct SealedCommand: Hashable, Sendable {
    package let header: CommandHeader
    /// The CBOR map `{"header": bytes, "key": 65 bytes, "body": bytes, "signature": 64 bytes}`.
    package let encoded: [UInt8]
    /// The SHA-256 of the bytes. Relay and receipt identify the command by it.
    package let digest: Digest256

    private let headerBytes: [UInt8]
    private let encapsulatedKey: [UInt8]
    private let ciphertext: [UInt8]
    private let signature: [UInt8]

    /// Seals a body for the target and signs it.
    /// - Parameters:
    ///   - header: its kind must be the body's, its sender the key's endpoint, and its key id the target's.
    ///   - target: the agreement key in the target's record.
    ///   - key: the sender's identity key.
    package init(
        _ body: CommandBody,
        header: CommandHeader,
        target: AgreementPublicKey,
        key: some IdentityKey,
        limits: Limits = Limits()
    ) throws {
        try header.validate()
        guard !header.livesTooLong else { throw CommandError.livesTooLong }
        guard header.kind == body.kind, header.sender == EndpointID(key.publicKey), header.keyID == target.keyID else {
            throw CommandError.malformed
        }
        let headerBytes = try ValueSetEncoder().encode(header).encodedBytes()
        let (encapsulatedKey, ciphertext) = try target.seal(
            try body.encodedBytes(),
            info: Purpose.command.bytes,
            associatedData: headerBytes
        )
        let signature = try key.sign(headerBytes + encapsulatedKey + ciphertext, for: .command)
        let envelope: ValueSet = [
            "header": .data(headerBytes), "key": .data(encapsulatedKey), "body": .data(ciphertext), "signature": .data(signature),
        ]
        self.header = header
        self.encoded = try envelope.encodedBytes()
        try limits.check(.commandBytes, encoded.count, as: CommandError.limitExceeded)
        self.digest = Digest256(hashing: encoded)
        self.headerBytes = headerBytes
        self.encapsulatedKey = encapsulatedKey
        self.ciphertext = ciphertext
        self.signature = signature
    }

    /// Parses a command. It checks form and size, not the signature.
    package init(decoding encoded: [UInt8], limits: Limits = Limits()) throws(CommandError) {
        try limits.check(.commandBytes, encoded.count, as: CommandError.limitExceeded)
        guard let envelope = try? ValueSet(decoding: encoded), envelope.count == 4,
            let headerBytes = envelope["header"]?.data,
            let encapsulatedKey = envelope["key"]?.data, encapsulatedKey.count == 65,
            let ciphertext = envelope["body"]?.data,
            let signature = envelope["signature"]?.data, signature.count == 64,
            let set = try? ValueSet(decoding: headerBytes)
        else {
            throw .malformed
        }
        // The suite is checked first, because another suite may define the other fields differently.
        guard let suite = set["suite"]?.int else { throw .malformed }
        guard suite == CommandHeader.currentSuite else { throw .unknownSuite(suite) }
        let header = try CommandHeader(decoding: set)
        try header.validate()
        self.header = header
        self.encoded = encoded
        self.digest = Digest256(hashing: encoded)
        self.headerBytes = headerBytes
        self.encapsulatedKey = encapsulatedKey
        self.ciphertext = ciphertext
        self.signature = signature
    }

    /// The data that the state machines use.
    package var descriptor: CommandDescriptor {
        CommandDescriptor(
            id: header.id,
            lane: header.lane,
            number: header.number,
            firstNumber: header.firstNumber,
            created: header.created,
            expires: header.expires,
            digest: digest,
            size: encoded.count
        )
    }

    /// The account, relay and endpoint to which a command must be addressed.
    package struct Recipient: Sendable {
        package var account: String
        package var relay: RelayID
        package var endpoint: EndpointID

        package init(account: String, relay: RelayID, endpoint: EndpointID) {
            self.account = account
            self.relay = relay
            self.endpoint = endpoint
        }
    }

    /// Checks the command's addresses and its sender's id, not the signature. This is enough for a relay, which has authenticated the
    /// sender's connection.
    package func check(for recipient: Recipient, from sender: EndpointID) throws(CommandError) {
        guard header.account == recipient.account else { throw .wrongAccount }
        guard header.relay == recipient.relay else { throw .wrongRelay }
        guard header.target == recipient.endpoint else { throw .wrongTarget }
        guard header.sender == sender else { throw .wrongSender }
    }

    /// Checks that the command is addressed to this recipient and signed by the endpoint of the record.
    /// - Parameters:
    ///   - sender: the newest known record of the sender.
    ///   - now: milliseconds since 1970, in relay time.
    package func verify(for recipient: Recipient, from sender: EndpointRecord, now: Int64) throws(CommandError) {
        guard sender.account == recipient.account else { throw .wrongAccount }
        try check(for: recipient, from: sender.endpointID)
        guard sender.identityKey.isValid(signature, over: headerBytes + encapsulatedKey + ciphertext, for: .command) else {
            throw .badSignature
        }
        // A relay refuses such a command before it stores it.
        guard !header.livesTooLong else { throw .livesTooLong }
        guard now < header.expires else { throw .expired }
    }

    /// Opens the body; only after `verify`.
    /// - Parameter keys: the target's agreement keys, including those that are kept after a rotation.
    package func open(with keys: [any AgreementKey], limits: Limits = Limits()) throws(CommandError) -> CommandBody {
        guard let key = keys.first(where: { $0.publicKey.keyID == header.keyID }) else { throw .unknownKey }
        guard
            let plain = try? key.open(
                ciphertext,
                encapsulatedKey: encapsulatedKey,
                info: Purpose.command.bytes,
                associatedData: headerBytes
            )
        else {
            throw .cannotOpen
        }
        return try CommandBody(decoding: plain, kind: header.kind, limits: limits)
    }
}
