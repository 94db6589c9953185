// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Crypto
package import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

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
        try makeDirectory(directory)
        let path = directory + "/" + fileName
        if access(path, F_OK) != 0 { try make(path) }
        return try read(path)
    }

    private static func makeDirectory(_ path: String) throws(RelayKeyError) {
        do {
            try FileManager.default.createDirectory(
                atPath: path,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw RelayKeyError(path: path, problem: .directoryNotWritable)
        }
        guard access(path, W_OK | X_OK) == 0 else { throw RelayKeyError(path: path, problem: .directoryNotWritable) }
    }

    private static func read(_ path: String) throws(RelayKeyError) -> RelayKey {
        // `stat` is not used: the module of this name depends on which files are compiled together.
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        guard let mode = attributes?[.posixPermissions] as? Int, let data = FileManager.default.contents(atPath: path) else {
            throw RelayKeyError(path: path, problem: .notReadable)
        }
        guard mode & 0o077 == 0 else { throw RelayKeyError(path: path, problem: .readableByOthers) }
        guard let key = try? P256.Signing.PrivateKey(pemRepresentation: String(decoding: data, as: UTF8.self)) else {
            throw RelayKeyError(path: path, problem: .notAKey)
        }
        return RelayKey(key)
    }

    /// Writes a temporary file and links it to the final name, so that the file is always complete, and of two concurrent
    /// starts one creates the key.
    private static func make(_ path: String) throws(RelayKeyError) {
        let draft = "\(path).\(getpid()).\(UInt32.random(in: .min ... .max))"
        let file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw RelayKeyError(path: path, problem: .directoryNotWritable) }
        defer { unlink(draft) }
        let bytes = Array((P256.Signing.PrivateKey().pemRepresentation + "\n").utf8)
        let isWritten = write(file, bytes, bytes.count) == bytes.count && fsync(file) == 0
        close(file)
        guard isWritten, link(draft, path) == 0 || errno == EEXIST else {
            throw RelayKeyError(path: path, problem: .directoryNotWritable)
        }
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
                + "With a new one the relay has another id, and endpoints must join anew"
        }
    }
}
