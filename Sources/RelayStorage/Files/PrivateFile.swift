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
        guard let file = try StorageFile(reading: path) else { return nil }
        let facts = try file.facts()
        guard facts.isPrivate else { throw StorageError(.accessibleToOthers, path: path) }
        guard facts.isRegular else { throw StorageError(.damaged, path: path) }
        var bytes: [UInt8] = []
        while bytes.count <= limit {
            let piece = try file.next(16 << 10)
            if piece.isEmpty { return bytes }
            bytes += piece
        }
        throw StorageError(.damaged, path: path)
    }

    /// Creates or replaces the file. The new content is on disk when this returns.
    package static func replace(_ path: String, with bytes: [UInt8]) throws(StorageError) {
        let draft = draft(of: path)
        _ = try write(bytes, to: draft, of: path)
        _ = try publish(draft, as: path, replacing: true)
    }

    /// Creates the file, which is on disk when this returns; `false` if it exists. Of several concurrent calls, one succeeds.
    package static func create(_ path: String, with bytes: [UInt8] = []) throws(StorageError) -> Bool {
        if exists(path) { return false }
        let draft = draft(of: path)
        _ = try write(bytes, to: draft, of: path)
        return try publish(draft, as: path, replacing: false)
    }

    /// Gives a flushed draft its name, which is on disk when this returns. The draft is gone afterwards, also after an error.
    /// - Returns: `false` if a file has the name and must not be replaced.
    package static func publish(_ draft: String, as path: String, replacing: Bool) throws(StorageError) -> Bool {
        defer { unlink(draft) }
        // A hard link never replaces a file.
        guard (replacing ? rename(draft, path) : link(draft, path)) == 0 else {
            if errno == EEXIST, !replacing { return false }
            throw StorageError(system: errno, path: path)
        }
        try PrivateDirectory.flush(PrivateDirectory.parent(of: path))
        return true
    }

    /// Renames a file or directory, without a flush.
    package static func move(_ path: String, to other: String) throws(StorageError) {
        guard rename(path, other) == 0 else { throw StorageError(system: errno, path: other) }
    }

    package static func delete(_ path: String) throws(StorageError) {
        guard unlink(path) == 0 || errno == ENOENT else { throw StorageError(system: errno, path: path) }
    }

    /// Sets mode 0600.
    package static func restrict(_ path: String) throws(StorageError) {
        guard chmod(path, 0o600) == 0 else { throw StorageError(system: errno, path: path) }
    }

    /// Writes the content of a file to disk.
    static func flush(_ path: String) throws(StorageError) {
        guard let file = try StorageFile(reading: path) else { throw StorageError(system: ENOENT, path: path) }
        try file.flush()
    }

    /// A new name beside a file.
    static func draft(of path: String) -> String { "\(path).\(getpid()).\(UInt64.random(in: 0 ... .max)).draft" }

    /// Creates a draft with this content, and flushes it.
    static func write(_ bytes: [UInt8], to draft: String, of path: String) throws(StorageError) -> StorageFile {
        do throws(StorageError) {
            let file = try StorageFile(creating: draft)
            try file.append(bytes)
            try file.flush()
            return file
        } catch {
            unlink(draft)
            throw StorageError(error.problem, path: path)
        }
    }
}
