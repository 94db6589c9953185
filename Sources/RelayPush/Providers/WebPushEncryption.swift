// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol

/// Encrypts a message for a subscriber: one record of `aes128gcm` (RFC 8188), with keys agreed by ECDH (RFC 8291).
package enum WebPushEncryption {
    /// The largest plaintext: 4096 bytes less the header of 86, the delimiter and the tag.
    static let maximumPlaintextBytes = 3_993
    static let recordSize: UInt32 = 4_096

    package enum Failure: Error, Hashable, Sendable {
        /// The subscriber's key is no point of P-256.
        case invalidKey
        case tooLong
    }

    /// - Parameters:
    ///   - publicKey: The subscriber's, an uncompressed point of P-256 (65 bytes).
    ///   - secret: The subscriber's authentication secret (16 bytes).
    ///   - key: The sender's, used once.
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
            // RFC 8291 §3.4, then RFC 8188 §2.2 and §2.3.
            let input = shared.hkdfDerivedSymmetricKey(
                using: SHA256.self,
                salt: secret,
                sharedInfo: Array("WebPush: info".utf8) + [0] + publicKey + own,
                outputByteCount: 32
            )
            let contentKey = HKDF<SHA256>.deriveKey(
                inputKeyMaterial: input,
                salt: salt,
                info: Array("Content-Encoding: aes128gcm".utf8) + [0],
                outputByteCount: 16
            )
            let nonce = HKDF<SHA256>.deriveKey(
                inputKeyMaterial: input,
                salt: salt,
                info: Array("Content-Encoding: nonce".utf8) + [0],
                outputByteCount: 12
            )
            // 2 marks the last record.
            let box = try AES.GCM.seal(
                plaintext + [2],
                using: contentKey,
                nonce: try AES.GCM.Nonce(data: nonce.withUnsafeBytes { Array($0) })
            )
            let size = (0..<4).reversed().map { UInt8(truncatingIfNeeded: recordSize >> (8 * $0)) }
            return salt + size + [UInt8(own.count)] + own + Array(box.ciphertext) + Array(box.tag)
        } catch {
            throw .invalidKey
        }
    }
}
