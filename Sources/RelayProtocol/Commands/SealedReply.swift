// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A target's answer to a command, sealed for its sender. The receipt signs its digest.
package struct SealedReply: Hashable, Sendable {
    /// The CBOR map `{"keyID": 16 bytes, "key": 65 bytes, "body": bytes}`.
    package let encoded: [UInt8]
    /// The SHA-256 of the bytes.
    package let digest: Digest256

    private let keyID: [UInt8]
    private let encapsulatedKey: [UInt8]
    private let ciphertext: [UInt8]

    /// How many bytes a sealed reply is longer than its answer, at most.
    package static let overhead = 256

    /// Seals an answer with the agreement key in the sender's record.
    package init(_ message: ValueSet, to command: SealedCommand, sender: AgreementPublicKey, limits: Limits = Limits()) throws {
        let (encapsulatedKey, ciphertext) = try sender.seal(
            try message.encodedBytes(),
            info: Purpose.reply.bytes,
            associatedData: command.digest.bytes
        )
        let envelope: ValueSet = ["keyID": .data(sender.keyID), "key": .data(encapsulatedKey), "body": .data(ciphertext)]
        try self.init(decoding: try envelope.encodedBytes(), limits: limits)
    }

    /// Parses a reply. It checks form and size only.
    package init(decoding encoded: [UInt8], limits: Limits = Limits()) throws(CommandError) {
        try limits.check(.replyBytes, encoded.count, as: CommandError.limitExceeded)
        guard let envelope = try? ValueSet(decoding: encoded), envelope.count == 3,
            let keyID = envelope["keyID"]?.data, keyID.count == 16,
            let encapsulatedKey = envelope["key"]?.data, encapsulatedKey.count == 65,
            let ciphertext = envelope["body"]?.data
        else {
            throw .malformed
        }
        self.encoded = encoded
        self.digest = Digest256(hashing: encoded)
        self.keyID = keyID
        self.encapsulatedKey = encapsulatedKey
        self.ciphertext = ciphertext
    }

    /// Opens the answer to a command. Call it only after the receipt is verified.
    package func open(_ command: SealedCommand, with keys: [any AgreementKey]) throws(CommandError) -> ValueSet {
        guard let key = keys.first(where: { $0.publicKey.keyID == keyID }) else { throw .unknownKey }
        guard
            let plain = try? key.open(
                ciphertext,
                encapsulatedKey: encapsulatedKey,
                info: Purpose.reply.bytes,
                associatedData: command.digest.bytes
            )
        else {
            throw .cannotOpen
        }
        guard let message = try? ValueSet(decoding: plain) else { throw .malformedBody }
        return message
    }
}
