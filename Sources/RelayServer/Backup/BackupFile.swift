// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A file for sequential reading or writing, with access for its owner only.
struct BackupFile: ~Copyable {
    /// The maximum number of bytes in memory at a time.
    static let pieceBytes = 1 << 20

    let path: String
    private let descriptor: Int32

    init(reading path: String) throws(BackupError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .notReadable(path, code: errno) }
        self.path = path
        self.descriptor = descriptor
    }

    /// Creates the file, which must not exist.
    init(creating path: String) throws(BackupError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .notWritable(path, code: errno) }
        self.path = path
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Reads up to `count` bytes; empty at the end of the file.
    func next(_ count: Int) throws(BackupError) -> [UInt8] {
        let path = path
        let descriptor = descriptor
        var code: Int32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            repeat {
                let got = read(descriptor, buffer.baseAddress, buffer.count)
                code = got < 0 ? errno : 0
                filled = max(got, 0)
            } while code == EINTR
        }
        guard code == 0 else { throw .notReadable(path, code: code) }
        return bytes
    }

    func add(_ bytes: [UInt8]) throws(BackupError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .notWritable(path, code: errno) }
            rest = rest.dropFirst(count)
        }
    }

    /// Flushes the file to disk.
    func sync() throws(BackupError) {
        guard fsync(descriptor) == 0 else { throw .notWritable(path, code: errno) }
    }

    /// Flushes a directory to disk, so that its file names survive a loss of power.
    static func syncDirectory(_ path: String) throws(BackupError) {
        let directory = open(path, O_RDONLY | O_CLOEXEC)
        guard directory >= 0 else { throw .notReadable(path, code: errno) }
        defer { close(directory) }
        guard fsync(directory) == 0 else { throw .notWritable(path, code: errno) }
    }
}
