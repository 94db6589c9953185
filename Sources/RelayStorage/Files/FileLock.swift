// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// An exclusive lock between processes, and between holders in one process. The kernel releases it when the process ends.
package final class FileLock: Sendable {
    private let descriptor: Int32

    /// `nil` if another holder has the lock.
    package init?(tryLocking path: String) throws(StorageError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard try Self.lock(descriptor, path) else { return nil }
        self.descriptor = descriptor
    }

    /// Creates or replaces a file, which is locked before it gets its name. The content is on disk when this returns.
    package init(replacing path: String, with bytes: [UInt8]) throws(StorageError) {
        let draft = PrivateFile.draft(of: path)
        let descriptor: Int32
        do throws(StorageError) {
            let file = try PrivateFile.write(bytes, to: draft, of: path)
            // The lock belongs to both descriptors.
            descriptor = fcntl(file.descriptor, F_DUPFD_CLOEXEC, 0)
            guard try Self.lock(descriptor, path) else { throw StorageError(.locked, path: path) }
        } catch {
            unlink(draft)
            throw error
        }
        self.descriptor = descriptor
        _ = try PrivateFile.publish(draft, as: path, replacing: true)
    }

    /// - Returns: `false` if another holder has the lock. The descriptor is closed then, and after an error.
    private static func lock(_ descriptor: Int32, _ path: String) throws(StorageError) -> Bool {
        guard descriptor >= 0 else { throw StorageError(system: errno, path: path) }
        guard let number = begin(descriptor) else { return true }
        close(descriptor)
        if number == EWOULDBLOCK { return false }
        throw StorageError(system: number, path: path)
    }

    /// Takes the lock of an open file or folder. It lasts until `end`.
    /// - Returns: `nil` if it is taken, else the error: `EWOULDBLOCK` if another holder has it.
    static func begin(_ descriptor: Int32) -> Int32? {
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 { if errno != EINTR { return errno } }
        return nil
    }

    /// Ends a lock. Closing the descriptor is not enough, because a child process that is being spawned may hold a copy of it.
    static func end(_ descriptor: Int32) { _ = flock(descriptor, LOCK_UN) }

    /// Whether a holder has the lock of a file; `nil` if the file cannot be read.
    package static func isHeld(_ path: String) -> Bool? {
        do throws(StorageError) {
            guard let file = try StorageFile(reading: path) else { return nil }
            guard flock(file.descriptor, LOCK_SH | LOCK_NB) == 0 else { return true }
            end(file.descriptor)
            return false
        } catch {
            return nil
        }
    }

    /// The file's number in its file system.
    package var fileNumber: Int64 {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? Int64(truncatingIfNeeded: status.st_ino) : 0
    }

    deinit {
        release()
        close(descriptor)
    }

    /// Releases the lock.
    package func release() { Self.end(descriptor) }

    /// Waits for the lock, at most 5 s, and holds it for a short operation.
    package static func whileHolding<Value>(_ path: String, _ body: () throws(StorageError) -> Value) throws(StorageError) -> Value {
        for _ in 0..<500 {
            if let lock = try FileLock(tryLocking: path) {
                defer { withExtendedLifetime(lock) {} }
                return try body()
            }
            usleep(10_000)
        }
        throw StorageError(.locked, path: path)
    }

    /// Writes the name of the holder into the file.
    package func sign(_ holder: String) {
        let bytes = Array(holder.utf8.prefix(200))
        var status = stat()
        guard pwrite(descriptor, bytes, bytes.count, 0) == bytes.count, fstat(descriptor, &status) == 0 else { return }
        if status.st_size != off_t(bytes.count) { _ = ftruncate(descriptor, off_t(bytes.count)) }
    }

    /// Waits until the file is on disk. A later text of the same length then never leaves an empty file behind, also after a power cut.
    package func flush() { _ = fsync(descriptor) }

    /// The holder's name in the file.
    package static func holder(of path: String) -> String {
        let text = (try? PrivateFile.contents(of: path)).flatMap { $0 }.map { String(decoding: $0.prefix(200), as: UTF8.self) } ?? ""
        let isPlain = text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
        return text.isEmpty || !isPlain ? "another process" : text
    }
}
