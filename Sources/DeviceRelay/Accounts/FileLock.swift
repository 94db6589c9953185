// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A lock that processes hold against each other, and so do two holders in one process. The kernel takes it back when the
/// process ends, however it ends.
final class FileLock: Sendable {
    private let descriptor: Int32

    /// `nil` if somebody else holds it.
    init?(tryLocking path: String) throws(StorageError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw PrivateFile.problem(errno, path: path) }
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let number = errno
            if number == EINTR { continue }
            close(descriptor)
            if number == EWOULDBLOCK { return nil }
            throw PrivateFile.problem(number, path: path)
        }
        self.descriptor = descriptor
    }

    deinit {
        // Closing alone gives the lock back only when no process that is just being started holds a copy of the descriptor.
        _ = flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// For what takes a moment only: waits for the lock, at most 5 s.
    static func whileHolding<Value>(_ path: String, _ body: () throws(StorageError) -> Value) throws(StorageError) -> Value {
        for _ in 0..<500 {
            if let lock = try FileLock(tryLocking: path) {
                defer { withExtendedLifetime(lock) {} }
                return try body()
            }
            usleep(10_000)
        }
        throw StorageError(.locked, path: path)
    }

    /// Says in the file who holds it.
    func sign(_ holder: String) {
        let bytes = Array(holder.utf8.prefix(200))
        guard ftruncate(descriptor, 0) == 0 else { return }
        _ = pwrite(descriptor, bytes, bytes.count, 0)
    }

    /// Who wrote that they hold it.
    static func holder(of path: String) -> String {
        let text = (try? PrivateFile.contents(of: path)).flatMap { $0 }.map { String(decoding: $0.prefix(200), as: UTF8.self) } ?? ""
        let isPlain = text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
        return text.isEmpty || !isPlain ? "another process" : text
    }
}
