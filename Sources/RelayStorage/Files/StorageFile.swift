// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// An open file that is read or written from its beginning to its end. A new file is for one user only: mode 0600.
package struct StorageFile: ~Copyable, Sendable {
    package let path: String
    let descriptor: Int32

    /// Opens a file for reading; `nil` if it does not exist.
    /// - Parameter isChosen: Whether the operator has chosen the path. Then links are followed, and a pipe is waited for.
    package init?(reading path: String, isChosen: Bool = false) throws(StorageError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | (isChosen ? 0 : O_NOFOLLOW | O_NONBLOCK))
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw StorageError(.notReadable, path: path)
        }
        self.path = path
        self.descriptor = descriptor
    }

    /// Creates a file, which must not exist.
    package init(creating path: String) throws(StorageError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw StorageError(system: errno, path: path) }
        self.path = path
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// The size in bytes, and whether it is a regular file for one user only.
    package func facts() throws(StorageError) -> (size: Int64, isRegular: Bool, isPrivate: Bool) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw StorageError(.notReadable, path: path) }
        return (Int64(facts.st_size), facts.st_mode & S_IFMT == S_IFREG, facts.st_mode & 0o077 == 0)
    }

    /// Reads up to `count` bytes; empty at the end of the file.
    package func next(_ count: Int) throws(StorageError) -> [UInt8] {
        let descriptor = descriptor
        var number: Int32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            repeat {
                let got = read(descriptor, buffer.baseAddress, buffer.count)
                number = got < 0 ? errno : 0
                filled = max(got, 0)
            } while number == EINTR
        }
        guard number == 0 else { throw StorageError(system: number, path: path) }
        return bytes
    }

    /// Passes over bytes, also beyond the end.
    /// - Returns: The place of the next byte.
    package func skip(_ count: Int64) throws(StorageError) -> Int64 {
        let place = lseek(descriptor, off_t(count), SEEK_CUR)
        guard place >= 0 else { throw StorageError(system: errno, path: path) }
        return Int64(place)
    }

    package func append(_ bytes: [UInt8]) throws(StorageError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw StorageError(system: count < 0 ? errno : EIO, path: path) }
            rest = rest.dropFirst(count)
        }
    }

    /// Writes the content to disk.
    package func flush() throws(StorageError) {
        #if canImport(Darwin)
        // On Apple systems, fsync leaves the bytes in the drive's cache.
        if fcntl(descriptor, F_FULLFSYNC) == 0 { return }
        #endif
        guard fsync(descriptor) == 0 else { throw StorageError(system: errno, path: path) }
    }
}
