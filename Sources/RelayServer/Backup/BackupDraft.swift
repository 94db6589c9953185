// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayStorage

/// The temporary folder of a backup, beside the backup's file, accessible to this user only. It contains keys, so it must not remain: the
/// lock of a killed process ends, and the next backup of the same user in the same place removes the folder.
package final class BackupDraft {
    private static let beginning = "relayd-backup."
    private static let ending = ".partial"

    package let path: String
    private let name: String
    private let parent: OpenDirectory
    private let folder: OpenDirectory

    /// Creates the folder, and removes abandoned ones of this user in the same place.
    package init(beside file: String) throws(StorageError) {
        let place = PrivateDirectory.parent(of: file)
        parent = try OpenDirectory(place)
        // Another user could put a folder of his own in place of this one.
        guard !parent.isUnprotected else { throw StorageError(.unprotected, path: place) }
        Self.removeAbandoned(in: parent, at: place)
        while true {
            let name = "\(Self.beginning)\(UInt64.random(in: .min ... .max))\(Self.ending)"
            try parent.create(name)
            // Until it is locked, another backup may remove it as abandoned. Without locks, no folder counts as abandoned.
            guard let folder = OpenDirectory(name, in: parent), folder.isOwn else { continue }
            _ = folder.tryLock()
            guard folder.isStill(name, in: parent) else { continue }
            (self.path, self.name, self.folder) = ("\(place)/\(name)", name, folder)
            return
        }
    }

    deinit { Self.remove(folder, name, in: parent) }

    private static func removeAbandoned(in parent: OpenDirectory, at place: String) {
        for name in (try? PrivateDirectory.names(in: place)) ?? [] where isName(name) {
            guard let folder = OpenDirectory(name, in: parent), folder.isOwn, folder.tryLock() else { continue }
            remove(folder, name, in: parent)
        }
    }

    private static func remove(_ folder: OpenDirectory, _ name: String, in parent: OpenDirectory) {
        folder.removeFiles()
        if folder.isStill(name, in: parent) { parent.removeDirectory(name) }
    }

    private static func isName(_ name: String) -> Bool {
        let digits = name.utf8.dropFirst(beginning.utf8.count).dropLast(ending.utf8.count)
        return name.utf8.starts(with: beginning.utf8) && name.utf8.suffix(ending.utf8.count).elementsEqual(ending.utf8)
            && !digits.isEmpty && digits.allSatisfy { (0x30...0x39).contains($0) }
    }
}
