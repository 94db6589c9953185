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
        guard descriptor >= 0 else { throw StorageError(system: errno, path: path) }
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let number = errno
            if number == EINTR { continue }
            close(descriptor)
            if number == EWOULDBLOCK { return nil }
            throw StorageError(system: number, path: path)
        }
        self.descriptor = descriptor
    }

    deinit {
        release()
        close(descriptor)
    }

    /// Releases the lock. Closing the descriptor is not enough, because a child process that is being spawned may hold a copy of it.
    package func release() { _ = flock(descriptor, LOCK_UN) }

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
        guard ftruncate(descriptor, 0) == 0 else { return }
        _ = pwrite(descriptor, bytes, bytes.count, 0)
    }

    /// The holder's name in the file.
    package static func holder(of path: String) -> String {
        let text = (try? PrivateFile.contents(of: path)).flatMap { $0 }.map { String(decoding: $0.prefix(200), as: UTF8.self) } ?? ""
        let isPlain = text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
        return text.isEmpty || !isPlain ? "another process" : text
    }
}
