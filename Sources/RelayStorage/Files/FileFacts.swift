// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import RelayProtocol

/// The attributes of a file.
package struct FileFacts: Sendable {
    package let isFile: Bool
    package let isFolder: Bool
    package let isLink: Bool
    package let isSocket: Bool
    /// Whether this user owns it, and it has at most one name (hard link).
    package let isUnshared: Bool
    /// Whether this user owns it.
    package let isOwn: Bool
    /// Whether this user owns it, or root.
    package let isOwnOrRoots: Bool
    /// Whether it has no name left.
    package let isRemoved: Bool
    private let identity: [UInt64]
    package let permissions: mode_t
    package let size: Int64
    package let modified: Date
    /// Changes whenever the content may have changed.
    package let etag: String

    /// When the content was changed, in milliseconds since 1970. Dates of files beyond some million years are cut.
    package var modifiedMilliseconds: Int64 { Int64(max(-1e17, min(1e17, (modified.timeIntervalSince1970 * 1_000).rounded()))) }

    /// Reads the attributes of an open file.
    package init?(_ descriptor: Int32) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { return nil }
        self.init(facts)
    }

    /// Reads the attributes of a name in an open folder, without following a link.
    package init?(_ name: EntryName, in folder: Int32) {
        var facts = stat()
        guard fstatat(folder, name.text, &facts, AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
        self.init(facts)
    }

    /// Reads the attributes of a path that the user gave.
    /// - Parameter followsLinks: whether a link is replaced by its target.
    package init?(path: String, followsLinks: Bool) {
        var facts = stat()
        guard fstatat(AT_FDCWD, path, &facts, followsLinks ? 0 : AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
        self.init(facts)
    }

    /// Whether both are attributes of the same file.
    package func isSame(as other: FileFacts) -> Bool { identity == other.identity }

    private init(_ facts: stat) {
        let type = facts.st_mode & S_IFMT
        isFile = type == S_IFREG
        isFolder = type == S_IFDIR
        isLink = type == S_IFLNK
        isSocket = type == S_IFSOCK
        isOwn = facts.st_uid == geteuid()
        isOwnOrRoots = isOwn || facts.st_uid == 0
        isUnshared = facts.st_uid == geteuid() && facts.st_nlink <= 1
        isRemoved = facts.st_nlink == 0
        identity = [UInt64(truncatingIfNeeded: facts.st_dev), UInt64(facts.st_ino)]
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
