// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Crypto
package import RelayProtocol
import RelayStorage

/// The relay's own key. Its fingerprint is the relay's id, which join links pin.
package struct RelayKey: Sendable {
    package let privateKey: P256.Signing.PrivateKey
    package let id: RelayID

    package init(_ privateKey: P256.Signing.PrivateKey = P256.Signing.PrivateKey()) {
        self.privateKey = privateKey
        self.id = RelayID(SigningPublicKey(privateKey.publicKey))
    }

    package static let fileName = "relay.key"

    /// Reads `relay.key` (PKCS #8 in PEM) from the data directory. The first start creates both, with access for the owner only.
    package static func load(in directory: String) throws(RelayKeyError) -> RelayKey {
        let path = directory + "/" + fileName
        do throws(StorageError) {
            try PrivateDirectory.makeAll(directory)
            if let key = try read(path) { return key }
            // Of two concurrent starts, one creates the key.
            _ = try PrivateFile.create(path, with: Array((P256.Signing.PrivateKey().pemRepresentation + "\n").utf8))
            if let key = try read(path) { return key }
        } catch {
            let problem: RelayKeyError.Problem =
                switch error.problem {
                case .accessibleToOthers: .readableByOthers
                case .notReadable: .notReadable
                case .damaged: .notAKey
                default: .directoryNotWritable
                }
            throw RelayKeyError(path: problem == .directoryNotWritable ? directory : path, problem: problem)
        }
        throw RelayKeyError(path: path, problem: .notReadable)
    }

    private static func read(_ path: String) throws(StorageError) -> RelayKey? {
        guard let bytes = try PrivateFile.contents(of: path) else { return nil }
        guard let key = try? P256.Signing.PrivateKey(pemRepresentation: String(decoding: bytes, as: UTF8.self)) else {
            throw StorageError(.damaged, path: path)
        }
        return RelayKey(key)
    }
}

/// Why there is no relay key. The description contains advice.
package struct RelayKeyError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Problem: Hashable, Sendable {
        case directoryNotWritable, notReadable, readableByOthers, notAKey
    }

    package var path: String
    package var problem: Problem

    package var description: String {
        switch problem {
        case .directoryNotWritable: "\(path) cannot be written; choose another directory with --data-directory, or change its owner"
        case .notReadable: "\(path) cannot be read; it must belong to the user that runs relayd"
        case .readableByOthers: "\(path) can be read by others; run: chmod 600 '\(path)'"
        case .notAKey:
            "\(path) is not a P-256 key in PEM; restore it from a backup. "
                + "With a new key the relay has another id, and endpoints must join again"
        }
    }
}
