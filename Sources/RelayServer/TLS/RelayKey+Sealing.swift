// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

/// Encryption of what the relay stores for itself: a copy of the database alone gives nothing of it away.
extension RelayKey {
    private var sealingKey: SymmetricKey {
        let key = SymmetricKey(data: privateKey.rawRepresentation)
        return HKDF<SHA256>.deriveKey(inputKeyMaterial: key, info: Array("device-relay relay seal".utf8), outputByteCount: 32)
    }

    /// - Parameter label: What the bytes are. They open under the same label only.
    package func seal(_ bytes: [UInt8], label: String) throws -> [UInt8] {
        let box = try AES.GCM.seal(bytes, using: sealingKey, authenticating: Array(label.utf8))
        return Array(box.nonce) + box.ciphertext + box.tag
    }

    /// - Returns: `nil` if another key sealed the bytes, or they have another label.
    package func open(_ sealed: [UInt8], label: String) -> [UInt8]? {
        guard let box = try? AES.GCM.SealedBox(combined: sealed),
            let bytes = try? AES.GCM.open(box, using: sealingKey, authenticating: Array(label.utf8))
        else { return nil }
        return [UInt8](bytes)
    }
}
