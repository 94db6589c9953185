// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol
import RelayStorage

/// The secret in a file beside the database. Without it, the database reveals neither the signing keys nor any refresh token.
package struct MasterKey: Sendable {
    static let byteCount = 32

    private let key: SymmetricKey

    init(_ bytes: [UInt8]) { self.key = SymmetricKey(data: bytes) }

    /// The key for the codes of refresh tokens.
    var refreshTokenKey: SymmetricKey { derived("device-relay issuer refresh-token") }

    /// The key for the codes of forms.
    var formKey: SymmetricKey { derived("device-relay issuer form") }

    /// The key for the digests of the codes that users type.
    var userCodeKey: SymmetricKey { derived("device-relay issuer user-code") }

    /// The key for the digests of recovery codes.
    var recoveryKey: SymmetricKey { derived("device-relay issuer recovery-code") }

    /// The key for the codes of browsers in which users have signed in.
    var knownBrowserKey: SymmetricKey { derived("device-relay issuer known-browser") }

    /// The key for the codes of registered redirect URIs.
    var clientKey: SymmetricKey { derived("device-relay issuer client") }

    private var sealingKey: SymmetricKey { derived("device-relay issuer seal") }

    private func derived(_ purpose: String) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(inputKeyMaterial: key, info: Array(purpose.utf8), outputByteCount: 32)
    }

    /// - Parameter label: The name of the data. The data can be opened only with the same label.
    func seal(_ bytes: [UInt8], label: String) throws -> [UInt8] {
        let box = try AES.GCM.seal(bytes, using: sealingKey, authenticating: Array(label.utf8))
        return Array(box.nonce) + box.ciphertext + box.tag
    }

    func open(_ sealed: [UInt8], label: String) throws(IssuerError) -> [UInt8] {
        guard let box = try? AES.GCM.SealedBox(combined: sealed),
            let bytes = try? AES.GCM.open(box, using: sealingKey, authenticating: Array(label.utf8))
        else { throw .wrongMasterKey }
        return [UInt8](bytes)
    }
}

extension MasterKey {
    /// Reads the key from its file.
    /// - Parameter mayCreate: Whether a missing file is created with a new key. It must be `false` if there is data that was sealed with
    ///   the lost key.
    package init(path: String, mayCreate: Bool) throws(IssuerError) {
        let bytes: [UInt8]?
        do throws(StorageError) {
            var found = try PrivateFile.contents(of: path, upTo: MasterKey.byteCount)
            if found == nil, mayCreate {
                // The key is read from the file, because another process may have written it first.
                _ = try PrivateFile.create(path, with: randomBytes(MasterKey.byteCount))
                found = try PrivateFile.contents(of: path, upTo: MasterKey.byteCount)
            }
            bytes = found
        } catch {
            switch error.problem {
            case .accessibleToOthers: throw .masterKeyExposed(path: path)
            case .damaged: throw .masterKeyDamaged(path: path)
            default: throw .masterKeyUnusable(error)
            }
        }
        guard let bytes else { throw .masterKeyMissing(path: path) }
        guard bytes.count == MasterKey.byteCount else { throw .masterKeyDamaged(path: path) }
        self.init(bytes)
    }
}
