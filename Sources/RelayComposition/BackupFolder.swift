// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol
package import RelayServer
import RelayStorage

/// A folder of backups, of which the newest are kept.
package struct BackupFolder: Sendable {
    /// The largest time that has a name: the end of the year 9999, in milliseconds since 1970.
    private static let lastTime: Int64 = 253_402_300_799_999

    package let path: String

    /// - Throws: `BackupError.noFolder` if there is no folder. It is not made, because the path may be mistyped or its disk not mounted.
    package init(_ path: String) throws(BackupError) {
        guard FileFacts(path: path, followsLinks: true)?.isFolder == true else { throw .noFolder(path) }
        // Only the root is left with its slash.
        var path = path
        while path.utf8.count > 1, path.utf8.last == UInt8(ascii: "/") { path.removeLast() }
        self.path = path
    }

    /// A file whose name ends with `.tar`.
    package struct Entry: Sendable {
        package var name: String
        package var path: String
        /// What it says of itself; `nil` if it is not a backup in its full length.
        package var description: BackupArchive.Description?
    }

    /// Its files, the newest backup first, then those that are none. What is inside of them is not read.
    package func entries() throws -> [Entry] {
        let entries = try PrivateDirectory.names(in: path).filter { $0.utf8.suffix(4).elementsEqual(".tar".utf8) }.map { name in
            let path = "\(path)/\(name)"
            return Entry(name: name, path: path, description: try? BackupArchive.outline(path))
        }
        return entries.sorted { ($0.description?.made ?? .min) > ($1.description?.made ?? .min) }
    }

    /// The name that says what a backup is; `nil` if its time has none.
    private static func name(of description: BackupArchive.Description) -> String? {
        guard (0...lastTime).contains(description.made) else { return nil }
        let time = Date(timeIntervalSince1970: Double(description.made) / 1_000)
            .formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)).filter { $0.isLetter || $0.isNumber }
        return "relay-\(description.relay.prefix(8))-\(time).tar"
    }

    /// The result of `add`.
    package struct Added: Sendable {
        package var relay: RelayID
        package var path: String
        /// The paths of removed backups.
        package var removed: [String]
    }

    /// Makes a backup with a name of its own, and then removes the older ones that this call made earlier for the same relay. Their names
    /// and what they say of themselves agree; every other file stays, and counts as none.
    /// - Parameters:
    ///   - keep: How many remain, with the new one; at least 1.
    ///   - now: The current time.
    package func add(_ directory: DataDirectory, keep: Int, now: Milliseconds) throws -> Added {
        let key = try RelayKey.load(in: directory.path)
        guard let name = Self.name(of: .init(relay: "\(key.id)", made: now.count)) else { throw BackupError.clock }
        let relay = try Backup.make(of: directory, at: "\(path)/\(name)", replacing: false, now: now)
        // The new backup is kept even if its time is earlier than that of the others: the clock may have been wrong.
        let old = try entries().filter { $0.name != name && isOwn($0, of: relay) }.dropFirst(max(0, keep - 1))
        for entry in old { try PrivateFile.delete(entry.path) }
        return Added(relay: relay, path: "\(path)/\(name)", removed: old.map(\.path))
    }

    private func isOwn(_ entry: Entry, of relay: RelayID) -> Bool {
        // In a folder of several users, another one's file is neither counted nor removed.
        guard let description = entry.description, description.relay == "\(relay)", Self.name(of: description) == entry.name,
            let facts = FileFacts(path: entry.path, followsLinks: false)
        else { return false }
        return facts.isFile && facts.isOwn
    }
}
