// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayStorage

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The temporary folder of a backup, beside the backup's file, accessible to this user only. It contains keys, so it must not remain: the
/// lock of a killed process ends, and the next backup in the same place removes the folder.
package final class BackupDraft {
    private static let beginning = "relayd-backup."
    private static let ending = ".partial"

    package let path: String
    private let descriptor: Int32

    /// Creates the folder, and removes abandoned ones in the same place.
    package init(beside file: String) throws(BackupError) {
        let folder = PrivateDirectory.parent(of: file)
        Self.removeAbandoned(in: folder)
        while true {
            let path = "\(folder)/\(Self.beginning)\(UInt64.random(in: .min ... .max))\(Self.ending)"
            guard mkdir(path, 0o700) == 0 else { throw .notWritable(file, code: errno) }
            let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
            // Until it is locked, another backup may remove it as abandoned. If the file system has no locks, no folder counts as
            // abandoned.
            if descriptor >= 0, Self.lock(descriptor) || errno != EWOULDBLOCK, access(path, F_OK) == 0 {
                self.path = path
                self.descriptor = descriptor
                return
            }
            if descriptor >= 0 { close(descriptor) }
        }
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
        close(descriptor)
    }

    private static func removeAbandoned(in folder: String) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] where isName(name) {
            let descriptor = open("\(folder)/\(name)", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
            guard descriptor >= 0 else { continue }
            defer { close(descriptor) }
            if lock(descriptor) { try? FileManager.default.removeItem(atPath: "\(folder)/\(name)") }
        }
    }

    private static func isName(_ name: String) -> Bool {
        let digits = name.utf8.dropFirst(beginning.utf8.count).dropLast(ending.utf8.count)
        return name.utf8.starts(with: beginning.utf8) && name.utf8.suffix(ending.utf8.count).elementsEqual(ending.utf8)
            && !digits.isEmpty && digits.allSatisfy { (0x30...0x39).contains($0) }
    }

    private static func lock(_ descriptor: Int32) -> Bool { flock(descriptor, LOCK_EX | LOCK_NB) == 0 }
}
