// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayStorage

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The temporary folder of a backup, beside the backup's file, accessible to this user only. It contains keys, so it must not remain: the
/// lock of a killed process ends, and the next backup in the same place removes the folder.
package final class BackupDraft {
    private static let beginning = "relayd-backup."
    private static let ending = ".partial"

    package let path: String
    /// `nil` if the file system has no locks. Then no folder counts as abandoned.
    private let lock: FileLock?

    /// Creates the folder, and removes abandoned ones in the same place.
    package init(beside file: String) throws(StorageError) {
        let folder = PrivateDirectory.parent(of: file)
        Self.removeAbandoned(in: folder)
        while true {
            let path = "\(folder)/\(Self.beginning)\(UInt64.random(in: .min ... .max))\(Self.ending)"
            try PrivateDirectory.create(path)
            // Until it is locked, another backup may remove it as abandoned.
            let lock: FileLock?
            do throws(StorageError) {
                lock = try FileLock(tryLockingDirectory: path)
                if lock == nil { continue }
            } catch {
                lock = nil
            }
            guard PrivateFile.exists(path) else { continue }
            self.path = path
            self.lock = lock
            return
        }
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    private static func removeAbandoned(in folder: String) {
        for name in (try? PrivateDirectory.names(in: folder)) ?? [] where isName(name) {
            let path = "\(folder)/\(name)"
            guard let lock = try? FileLock(tryLockingDirectory: path) else { continue }
            withExtendedLifetime(lock) { try? FileManager.default.removeItem(atPath: path) }
        }
    }

    private static func isName(_ name: String) -> Bool {
        let digits = name.utf8.dropFirst(beginning.utf8.count).dropLast(ending.utf8.count)
        return name.utf8.starts(with: beginning.utf8) && name.utf8.suffix(ending.utf8.count).elementsEqual(ending.utf8)
            && !digits.isEmpty && digits.allSatisfy { (0x30...0x39).contains($0) }
    }
}
