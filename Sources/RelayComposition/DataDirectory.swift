// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
package import RelayServer

/// The directory of a relay's keys and databases, checked before any file in it is opened.
package struct DataDirectory: Sendable {
    package let path: String

    /// The directory of the restored files before they are moved to their final places. A relay does not start while it exists.
    static let restoring = "restoring"
    /// The directory of copied databases before they are moved to their final places. A relay does not start while it exists.
    static let copying = "copying"

    /// How a command uses the directory.
    package enum Use: Sendable {
        /// Requires a relay's data.
        case existing
        /// Creates missing files.
        case made
        /// Restores a backup, perhaps after an interruption.
        case restored
        /// Receives copied databases beside a relay's keys, perhaps after an interruption.
        case copied
    }

    package init(_ path: String, _ use: Use) throws(ConfigurationError) {
        self.path = path
        let isMade = use == .made || use == .restored
        let files = FileManager.default
        if isMade, !files.fileExists(atPath: path) {
            try? files.createDirectory(atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        }
        // Follows a link to the directory.
        let mode = (try? files.attributesOfItem(atPath: path + "/."))?[.posixPermissions] as? Int
        guard let mode else {
            throw ConfigurationError(
                isMade
                    ? "\(path) cannot be made, or is no directory; choose another one with --data-directory"
                    : Self.missing(path, use)
            )
        }
        guard mode & 0o022 == 0 else {
            throw ConfigurationError(
                "others may write to \(path), and so change what the relay does; run: \(ShellText.command("chmod go-w", path))"
            )
        }
        if use != .restored { try checkRestored() }
        if use == .existing || use == .made { try checkCopied() }
        guard isMade || files.fileExists(atPath: "\(path)/\(RelayKey.fileName)") else {
            throw ConfigurationError(Self.missing(path, use))
        }
    }

    private static func missing(_ path: String, _ use: Use) -> String {
        use == .copied
            ? "no relay.key at \(path): put relay.key and issuer.key of the relay there first"
            : "no relay's data at \(path): run `relayd serve` first, or say where it is with --data-directory"
    }

    /// Locks the directory for a relay. A restore holds the same lock while it replaces the files, so all files read under the lock
    /// belong to one relay.
    package func lock() throws -> StoreLock {
        let lock = try StoreLock(directory: path)
        try checkRestored()
        try checkCopied()
        return lock
    }

    private func checkCopied() throws(ConfigurationError) {
        guard !FileManager.default.fileExists(atPath: "\(path)/\(Self.copying)") else {
            throw ConfigurationError(
                """
                copying databases into \(path) was interrupted; do it again with `relayd store copy --from`, or remove relay.sqlite, \
                issuer.sqlite and \(Self.copying) there
                """
            )
        }
    }

    private func checkRestored() throws(ConfigurationError) {
        guard !FileManager.default.fileExists(atPath: "\(path)/\(Self.restoring)") else {
            throw ConfigurationError("restoring a backup into \(path) was interrupted; do it again: relayd restore FILE --force")
        }
    }
}
