// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Small files for one user only: mode 0600, in directories of mode 0700. Writes are atomic.
package enum PrivateFile {
    /// A larger file was not written by this type.
    static let largest = 1 << 20

    static func makeDirectory(_ path: String) throws(StorageError) {
        if mkdir(path, 0o700) == 0 { return }
        let number = errno
        guard let facts = FileFacts(path) else { throw problem(number, path: path) }
        guard facts.type == .typeDirectory else { throw StorageError(.notADirectory, path: path) }
    }

    /// Creates a directory and its parents.
    package static func makeDirectories(_ path: String) throws(StorageError) {
        guard access(path, F_OK) != 0 else { return try makeDirectory(path) }
        if let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), slash != path.startIndex { try makeDirectories(String(path[..<slash])) }
        try makeDirectory(path)
    }

    /// The entries of a directory; empty if it does not exist.
    static func names(in directory: String) throws(StorageError) -> [String] {
        guard access(directory, F_OK) == 0 else { return [] }
        do {
            return try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
        } catch {
            throw StorageError(.notReadable, path: directory)
        }
    }

    /// The content; `nil` if the file does not exist.
    package static func contents(of path: String) throws(StorageError) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw StorageError(.notReadable, path: path)
        }
        defer { close(descriptor) }
        guard let facts = FileFacts(path) else { throw StorageError(.notReadable, path: path) }
        guard facts.mode & 0o077 == 0 else { throw StorageError(.openToOthers, path: path) }
        guard facts.type == .typeRegular else { throw StorageError(.damaged, path: path) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        while bytes.count <= largest {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw problem(errno, path: path) }
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
            throw problem(number, path: path)
        }
        try flushDirectory(of: path)
    }

    /// Creates the file; `false` if it exists. Of several concurrent calls, one succeeds.
    static func create(_ path: String, with bytes: [UInt8]) throws(StorageError) -> Bool {
        let draft = try writeDraft(bytes, of: path)
        defer { unlink(draft) }
        guard link(draft, path) == 0 else {
            if errno == EEXIST { return false }
            throw problem(errno, path: path)
        }
        try flushDirectory(of: path)
        return true
    }

    package static func delete(_ path: String) throws(StorageError) {
        guard unlink(path) == 0 || errno == ENOENT else { throw problem(errno, path: path) }
    }

    private static func writeDraft(_ bytes: [UInt8], of path: String) throws(StorageError) -> String {
        let draft = "\(path).\(getpid()).\(UInt64.random(in: 0 ... .max)).draft"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw problem(errno, path: path) }
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
            throw problem(number, path: path)
        }
        return draft
    }

    /// Flushes the directory, so that the file's name is on disk too.
    private static func flushDirectory(of path: String) throws(StorageError) {
        let directory = String(path[..<(path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.endIndex)])
        let descriptor = open(directory, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw problem(errno, path: path) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw problem(errno, path: path) }
    }

    private static func flush(_ descriptor: Int32) -> Int32 {
        #if canImport(Darwin)
        // On Apple systems, fsync leaves the bytes in the drive's cache.
        if fcntl(descriptor, F_FULLFSYNC) == 0 { return 0 }
        #endif
        return fsync(descriptor)
    }

    static func problem(_ number: Int32, path: String) -> StorageError {
        switch number {
        case EACCES, EPERM, EROFS, ENOENT: StorageError(.notWritable, path: path)
        case ENOTDIR: StorageError(.notADirectory, path: path)
        case ENOSPC, EDQUOT: StorageError(.full, path: path)
        default: StorageError(.failed(number), path: path)
        }
    }
}

/// Attributes of a file. `stat` is not used, because the module of its result type depends on the other imports.
struct FileFacts {
    let mode: Int
    let type: FileAttributeType

    /// `nil` if the file does not exist or is not accessible.
    init?(_ path: String) {
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
            let mode = attributes[.posixPermissions] as? Int, let type = attributes[.type] as? FileAttributeType
        else { return nil }
        self.mode = mode
        self.type = type
    }
}
