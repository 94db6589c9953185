// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

/// One message sealed by HPKE (RFC 9180) in base mode: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. It is what the Crypto
/// library's `HPKE` makes and opens, from the same library's parts, for half of the time: that one lets every ephemeral key sign something,
/// and checks it, to prove that the key it has just made is one.
enum HybridEncryption {
    static func seal(
        _ plain: [UInt8],
        for recipient: P256.KeyAgreement.PublicKey,
        recipientBytes: [UInt8],
        info: [UInt8],
        associatedData: [UInt8]
    ) throws -> (encapsulatedKey: [UInt8], ciphertext: [UInt8]) {
        let ephemeral = makeKey()
        let encapsulatedKey = [UInt8](ephemeral.publicKey.x963Representation)
        let secret = try ephemeral.sharedSecretFromKeyAgreement(with: recipient)
        let schedule = try Schedule(secret, encapsulatedKey: encapsulatedKey, recipient: recipientBytes, info: info)
        let box = try AES.GCM.seal(plain, using: schedule.key, nonce: schedule.nonce, authenticating: associatedData)
        return (encapsulatedKey, [UInt8](box.ciphertext) + [UInt8](box.tag))
    }

    static func open(
        _ ciphertext: [UInt8],
        encapsulatedKey: [UInt8],
        with key: P256.KeyAgreement.PrivateKey,
        publicBytes: [UInt8],
        info: [UInt8],
        associatedData: [UInt8]
    ) throws -> [UInt8] {
        guard encapsulatedKey.count == 65, ciphertext.count >= tagBytes else { throw CryptoKitError.authenticationFailure }
        let ephemeral = try P256.KeyAgreement.PublicKey(x963Representation: encapsulatedKey)
        let secret = try key.sharedSecretFromKeyAgreement(with: ephemeral)
        let schedule = try Schedule(secret, encapsulatedKey: encapsulatedKey, recipient: publicBytes, info: info)
        let box = try AES.GCM.SealedBox(
            nonce: schedule.nonce,
            ciphertext: ciphertext.dropLast(tagBytes),
            tag: ciphertext.suffix(tagBytes)
        )
        return [UInt8](try AES.GCM.open(box, using: schedule.key, authenticating: associatedData))
    }

    private static let tagBytes = 16

    /// A random number below the order of the curve, which four thousand million of them to one are.
    private static func makeKey() -> P256.KeyAgreement.PrivateKey {
        while true {
            let candidate = SymmetricKey(size: .bits256)
            if let key = candidate.withUnsafeBytes({ try? P256.KeyAgreement.PrivateKey(rawRepresentation: $0) }) { return key }
        }
    }

    /// What both sides make of their shared secret (RFC 9180 §4.1 and §5.1).
    private struct Schedule {
        let key: SymmetricKey
        let nonce: AES.GCM.Nonce

        // KEM 0x0010; KEM 0x0010, KDF 0x0001, AEAD 0x0002.
        private static let kem = Array("KEM".utf8) + [0x00, 0x10]
        private static let suite = Array("HPKE".utf8) + [0x00, 0x10, 0x00, 0x01, 0x00, 0x02]
        private static let version = Array("HPKE-v1".utf8)
        private static let noSalt = SymmetricKey(data: [UInt8]())
        /// Of a mode without a shared key that was agreed on before.
        private static let noKeyHash = Array(extract(salt: noSalt, suite, "psk_id_hash", [UInt8]()))

        init(_ shared: SharedSecret, encapsulatedKey: [UInt8], recipient: [UInt8], info: [UInt8]) throws {
            let agreed = shared.withUnsafeBytes { Self.extract(salt: Self.noSalt, Self.kem, "eae_prk", $0) }
            let secret = Self.expand(agreed, Self.kem, "shared_secret", encapsulatedKey + recipient, count: 32)
            let infoHash = Self.extract(salt: Self.noSalt, Self.suite, "info_hash", info)
            let context: [UInt8] = [0x00] + Self.noKeyHash + infoHash
            let root = Self.extract(salt: SymmetricKey(data: secret), Self.suite, "secret", [UInt8]())
            self.key = SymmetricKey(data: Self.expand(root, Self.suite, "key", context, count: 32))
            // Of the first message, and the only one: its number, which is 0, changes nothing.
            self.nonce = try AES.GCM.Nonce(data: Array(Self.expand(root, Self.suite, "base_nonce", context, count: 12)).prefix(12))
        }

        private typealias Hash = HMAC<SHA256>.MAC

        private static func extract(salt: SymmetricKey, _ suite: [UInt8], _ label: String, _ input: some Collection<UInt8>) -> Hash {
            HMAC<SHA256>.authenticationCode(for: version + suite + label.utf8 + input, using: salt)
        }

        /// - Parameter count: At most the 32 bytes of one hash, which is as far as HKDF has to go.
        private static func expand(_ secret: Hash, _ suite: [UInt8], _ label: String, _ info: [UInt8], count: UInt8) -> Hash {
            let input: [UInt8] = [0, count] + version + suite + label.utf8 + info + [1]
            return HMAC<SHA256>.authenticationCode(for: input, using: SymmetricKey(data: secret))
        }
    }
}
