// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

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

/// What the system says of a file.
struct FileFacts: Sendable {
    let isFile: Bool
    let isFolder: Bool
    let isLink: Bool
    /// Whether this user owns it, and it has one name only or none.
    let isUnshared: Bool
    /// Whether its last name was removed.
    let isRemoved: Bool
    /// Who may read, write and run it.
    let permissions: mode_t
    let size: Int64
    let modified: Date
    /// Another one when the content may be another.
    let etag: String

    /// Of an open file.
    init?(_ descriptor: Int32) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { return nil }
        self.init(facts)
    }

    /// Of a name in an open folder; a link is a link.
    init?(_ name: EntryName, in folder: Int32) {
        var facts = stat()
        guard fstatat(folder, name.text, &facts, AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
        self.init(facts)
    }

    /// Of a path that the person gave.
    /// - Parameter followsLinks: Whether the facts are of what a link leads to.
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
        // The time of change cannot be set back as that of writing can.
        etag = [
            UInt64(facts.st_ino), UInt64(bitPattern: size), UInt64(bitPattern: Int64(written.tv_sec)), UInt64(clamping: written.tv_nsec),
            UInt64(bitPattern: Int64(changed.tv_sec)), UInt64(clamping: changed.tv_nsec),
        ].map { String($0, radix: 36) }.joined(separator: "-")
    }
}
