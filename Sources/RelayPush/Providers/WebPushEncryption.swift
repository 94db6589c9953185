// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol

/// Encrypts a message for a subscriber: one record of `aes128gcm` (RFC 8188), with keys agreed by ECDH (RFC 8291).
package enum WebPushEncryption {
    /// The largest plaintext: 4096 bytes, minus the header of 86 bytes, the delimiter and the tag.
    static let maximumPlaintextBytes = 3_993
    static let recordSize: UInt32 = 4_096

    package enum Failure: Error, Hashable, Sendable {
        /// The subscriber's key is not a point of P-256.
        case invalidKey
        case tooLong
    }

    /// - Parameters:
    ///   - publicKey: The subscriber's public key, an uncompressed point of P-256 (65 bytes).
    ///   - secret: The subscriber's authentication secret (16 bytes).
    ///   - key: The sender's key, used once.
    ///   - salt: 16 random bytes.
    static func encrypt(
        _ plaintext: [UInt8],
        for publicKey: [UInt8],
        secret: [UInt8],
        key: P256.KeyAgreement.PrivateKey = .init(),
        salt: [UInt8] = (0..<16).map { _ in .random(in: .min ... .max) }
    ) throws(Failure) -> [UInt8] {
        guard plaintext.count <= maximumPlaintextBytes else { throw .tooLong }
        do {
            let subscriber = try P256.KeyAgreement.PublicKey(x963Representation: publicKey)
            let shared = try key.sharedSecretFromKeyAgreement(with: subscriber)
            let own = Array(key.publicKey.x963Representation)
            // RFC 8291 §3.4.
            let input = shared.hkdfDerivedSymmetricKey(
                using: SHA256.self,
                salt: secret,
                sharedInfo: Array("WebPush: info".utf8) + [0] + publicKey + own,
                outputByteCount: 32
            )
            return try seal(plaintext, inputKey: input, salt: salt, keyID: own)
        } catch {
            throw .invalidKey
        }
    }

    /// Encrypts one record (RFC 8188 §2).
    static func seal(_ plaintext: [UInt8], inputKey: SymmetricKey, salt: [UInt8], keyID: [UInt8]) throws -> [UInt8] {
        let key = derive("aes128gcm", inputKey, salt, count: 16)
        let nonce = derive("nonce", inputKey, salt, count: 12).withUnsafeBytes { Array($0) }
        // The delimiter 2 marks the last record.
        let box = try AES.GCM.seal(plaintext + [2], using: key, nonce: try AES.GCM.Nonce(data: nonce))
        let size = (0..<4).reversed().map { UInt8(truncatingIfNeeded: recordSize >> (8 * $0)) }
        return salt + size + [UInt8(keyID.count)] + keyID + Array(box.ciphertext) + Array(box.tag)
    }

    private static func derive(_ name: String, _ inputKey: SymmetricKey, _ salt: [UInt8], count: Int) -> SymmetricKey {
        let info = Array("Content-Encoding: \(name)".utf8) + [0]
        return HKDF<SHA256>.deriveKey(inputKeyMaterial: inputKey, salt: salt, info: info, outputByteCount: count)
    }
}
