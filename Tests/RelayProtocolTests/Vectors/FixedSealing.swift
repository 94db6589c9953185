// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation

@testable import RelayProtocol

/// HPKE base mode (RFC 9180) with a given ephemeral key, so that a seal is reproducible: P-256, HKDF-SHA256, AES-256-GCM.
/// Only test vectors use it; real messages use a random ephemeral key.
enum FixedSealing {
    static func seal(
        _ plain: [UInt8],
        to recipient: AgreementPublicKey,
        ephemeral: P256.KeyAgreement.PrivateKey,
        info: [UInt8],
        associatedData: [UInt8]
    ) throws -> (key: [UInt8], ciphertext: [UInt8]) {
        let encapsulated = Array(ephemeral.publicKey.x963Representation)
        let shared = try ephemeral.sharedSecretFromKeyAgreement(with: .init(x963Representation: recipient.bytes))
        let kem = Labels(suite: Array("KEM".utf8) + [0x00, 0x10])
        let secret = kem.expand(
            kem.extract(salt: [], "eae_prk", shared.withUnsafeBytes { Array($0) }),
            "shared_secret",
            encapsulated + recipient.bytes,
            count: 32
        )
        let hpke = Labels(suite: Array("HPKE".utf8) + [0x00, 0x10, 0x00, 0x01, 0x00, 0x02])
        // The base mode has no pre-shared key.
        let context = [0] + hpke.extract(salt: [], "psk_id_hash", []) + hpke.extract(salt: [], "info_hash", info)
        let scheduled = hpke.extract(salt: secret, "secret", [])
        let box = try AES.GCM.seal(
            plain,
            using: SymmetricKey(data: hpke.expand(scheduled, "key", context, count: 32)),
            nonce: AES.GCM.Nonce(data: hpke.expand(scheduled, "base_nonce", context, count: 12)),
            authenticating: associatedData
        )
        return (encapsulated, Array(box.ciphertext + box.tag))
    }

    /// LabeledExtract and LabeledExpand (RFC 9180 §4).
    private struct Labels {
        let suite: [UInt8]

        func extract(salt: [UInt8], _ label: String, _ material: [UInt8]) -> [UInt8] {
            let labeled = Array("HPKE-v1".utf8) + suite + Array(label.utf8) + material
            return Array(HKDF<SHA256>.extract(inputKeyMaterial: SymmetricKey(data: labeled), salt: salt))
        }

        func expand(_ key: [UInt8], _ label: String, _ info: [UInt8], count: Int) -> [UInt8] {
            let labeled = [0, UInt8(truncatingIfNeeded: count)] + Array("HPKE-v1".utf8) + suite + Array(label.utf8) + info
            return HKDF<SHA256>.expand(pseudoRandomKey: key, info: labeled, outputByteCount: count).withUnsafeBytes { Array($0) }
        }
    }
}
