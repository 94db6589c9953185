// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// An open directory. Names in it are found relative to its descriptor: in a directory that several users share, a name may lead elsewhere from
/// one moment to the next.
package final class OpenDirectory {
    private let descriptor: Int32
    private let path: String
    private var isLocked = false

    /// Opens a directory whose path the user has chosen.
    package init(_ path: String) throws(StorageError) {
        descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        self.path = path
        guard descriptor >= 0 else { throw StorageError(system: errno, path: path) }
    }

    /// Opens a directory in another one.
    /// - Returns: `nil` if the name is that of no directory, or of a link.
    package init?(_ name: String, in parent: OpenDirectory) {
        descriptor = openat(parent.descriptor, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
        path = "\(parent.path)/\(name)"
        guard descriptor >= 0 else { return nil }
    }

    deinit {
        guard descriptor >= 0 else { return }
        if isLocked { FileLock.end(descriptor) }
        close(descriptor)
    }

    private var facts: stat? {
        var facts = stat()
        return fstat(descriptor, &facts) == 0 ? facts : nil
    }

    /// Whether it belongs to this user, and no other user can write to it.
    package var isOwn: Bool { facts.map { $0.st_uid == geteuid() && $0.st_mode & 0o022 == 0 } ?? false }

    /// Whether users who do not own it can rename and remove what others have in it.
    package var isUnprotected: Bool { facts.map { $0.st_mode & 0o022 != 0 && $0.st_mode & S_ISVTX == 0 } ?? true }

    /// Takes its lock, which ends with this object.
    /// - Returns: `false` if another holder has it, or the file system has no locks.
    package func tryLock() -> Bool {
        if !isLocked { isLocked = FileLock.begin(descriptor) == nil }
        return isLocked
    }

    /// Whether the name in the other directory is still that of this one.
    package func isStill(_ name: String, in parent: OpenDirectory) -> Bool {
        var named = stat()
        guard let facts, fstatat(parent.descriptor, name, &named, AT_SYMLINK_NOFOLLOW) == 0 else { return false }
        return (named.st_dev, named.st_ino) == (facts.st_dev, facts.st_ino)
    }

    /// Creates a directory of this user in it.
    package func create(_ name: String) throws(StorageError) {
        guard mkdirat(descriptor, name, 0o700) == 0 else { throw StorageError(system: errno, path: "\(path)/\(name)") }
    }

    /// Removes its files. What is in its directories stays.
    package func removeFiles() {
        for name in (try? PrivateDirectory.names(in: openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), path: path)) ?? [] {
            _ = unlinkat(descriptor, name, 0)
        }
    }

    /// Removes an empty directory in it.
    package func removeDirectory(_ name: String) { _ = unlinkat(descriptor, name, AT_REMOVEDIR) }
}
