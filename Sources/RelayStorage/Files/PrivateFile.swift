// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Small files for one user only: mode 0600. Writes are atomic. Symbolic links are not followed.
package enum PrivateFile {
    /// The default size limit, in bytes. A larger file counts as damaged.
    package static let largest = 1 << 20

    package static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// The content; `nil` if the file does not exist.
    /// - Parameter limit: The size limit, in bytes. A larger file throws `damaged`.
    package static func contents(of path: String, upTo limit: Int = largest) throws(StorageError) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw StorageError(.notReadable, path: path)
        }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw StorageError(.notReadable, path: path) }
        guard facts.st_mode & 0o077 == 0 else { throw StorageError(.accessibleToOthers, path: path) }
        guard facts.st_mode & S_IFMT == S_IFREG else { throw StorageError(.damaged, path: path) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        while bytes.count <= limit {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw StorageError(system: errno, path: path) }
            if count == 0 { return bytes }
            bytes += chunk[..<count]
        }
        throw StorageError(.damaged, path: path)
    }

    /// Creates or replaces the file. The new content is on disk when this returns.
    package static func replace(_ path: String, with bytes: [UInt8]) throws(StorageError) {
        let draft = try writeDraft(bytes, of: path)
        guard rename(draft, path) == 0 else {
            let number = errno
            unlink(draft)
            throw StorageError(system: number, path: path)
        }
        try PrivateDirectory.flush(PrivateDirectory.parent(of: path))
    }

    /// Creates the file, which is on disk when this returns; `false` if it exists. Of several concurrent calls, one succeeds.
    package static func create(_ path: String, with bytes: [UInt8] = []) throws(StorageError) -> Bool {
        if exists(path) { return false }
        let draft = try writeDraft(bytes, of: path)
        defer { unlink(draft) }
        guard link(draft, path) == 0 else {
            if errno == EEXIST { return false }
            throw StorageError(system: errno, path: path)
        }
        try PrivateDirectory.flush(PrivateDirectory.parent(of: path))
        return true
    }

    package static func delete(_ path: String) throws(StorageError) {
        guard unlink(path) == 0 || errno == ENOENT else { throw StorageError(system: errno, path: path) }
    }

    /// Sets mode 0600.
    package static func restrict(_ path: String) throws(StorageError) {
        guard chmod(path, 0o600) == 0 else { throw StorageError(system: errno, path: path) }
    }

    private static func writeDraft(_ bytes: [UInt8], of path: String) throws(StorageError) -> String {
        let draft = "\(path).\(getpid()).\(UInt64.random(in: 0 ... .max)).draft"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw StorageError(system: errno, path: path) }
        var number: Int32 = 0
        var rest = bytes[...]
        while number == 0, !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 { rest = rest.dropFirst(count) } else if errno != EINTR { number = errno }
        }
        if number == 0, flush(descriptor) != 0 { number = errno }
        close(descriptor)
        guard number == 0 else {
            unlink(draft)
            throw StorageError(system: number, path: path)
        }
        return draft
    }

    private static func flush(_ descriptor: Int32) -> Int32 {
        #if canImport(Darwin)
        // On Apple systems, fsync leaves the bytes in the drive's cache.
        if fcntl(descriptor, F_FULLFSYNC) == 0 { return 0 }
        #endif
        return fsync(descriptor)
    }
}
