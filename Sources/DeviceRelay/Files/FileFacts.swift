// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The attributes of a file.
struct FileFacts: Sendable {
    let isFile: Bool
    let isFolder: Bool
    let isLink: Bool
    /// Whether this user owns it, and it has at most one name (hard link).
    let isUnshared: Bool
    /// Whether it has no name left.
    let isRemoved: Bool
    let permissions: mode_t
    let size: Int64
    let modified: Date
    /// Changes whenever the content may have changed.
    let etag: String

    /// Reads the attributes of an open file.
    init?(_ descriptor: Int32) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { return nil }
        self.init(facts)
    }

    /// Reads the attributes of a name in an open folder, without following a link.
    init?(_ name: EntryName, in folder: Int32) {
        var facts = stat()
        guard fstatat(folder, name.text, &facts, AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
        self.init(facts)
    }

    /// Reads the attributes of a path that the user gave.
    /// - Parameter followsLinks: whether a link is replaced by its target.
    init?(path: String, followsLinks: Bool) {
        var facts = stat()
        guard fstatat(AT_FDCWD, path, &facts, followsLinks ? 0 : AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
        self.init(facts)
    }

    private init(_ facts: stat) {
        let type = facts.st_mode & S_IFMT
        isFile = type == S_IFREG
        isFolder = type == S_IFDIR
        isLink = type == S_IFLNK
        isUnshared = facts.st_uid == geteuid() && facts.st_nlink <= 1
        isRemoved = facts.st_nlink == 0
        permissions = facts.st_mode & 0o777
        size = Int64(facts.st_size)
        #if canImport(Darwin)
        let (written, changed) = (facts.st_mtimespec, facts.st_ctimespec)
        #else
        let (written, changed) = (facts.st_mtim, facts.st_ctim)
        #endif
        modified = Date(timeIntervalSince1970: Double(written.tv_sec) + Double(written.tv_nsec) / 1e9)
        // Includes the change time, which unlike the modification time cannot be set back.
        etag = [
            UInt64(facts.st_ino), UInt64(bitPattern: size), UInt64(bitPattern: Int64(written.tv_sec)), UInt64(clamping: written.tv_nsec),
            UInt64(bitPattern: Int64(changed.tv_sec)), UInt64(clamping: changed.tv_nsec),
        ].map { String($0, radix: 36) }.joined(separator: "-")
    }
}
