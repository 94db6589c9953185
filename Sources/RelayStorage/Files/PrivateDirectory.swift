// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Directories for one user only: mode 0700.
package enum PrivateDirectory {
    /// Creates a directory, which must not exist.
    package static func create(_ path: String) throws(StorageError) {
        guard mkdir(path, 0o700) == 0 else { throw StorageError(system: errno, path: path) }
    }

    /// Creates a directory unless it exists. Its name is on disk when this returns.
    package static func make(_ path: String) throws(StorageError) {
        if mkdir(path, 0o700) == 0 { return try flush(parent(of: path)) }
        let number = errno
        var facts = stat()
        guard stat(path, &facts) == 0 else { throw StorageError(system: number, path: path) }
        guard facts.st_mode & S_IFMT == S_IFDIR else { throw StorageError(.notADirectory, path: path) }
    }

    /// Creates a directory and its parents.
    package static func makeAll(_ path: String) throws(StorageError) {
        guard access(path, F_OK) != 0 else { return try make(path) }
        if let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), slash != path.startIndex { try makeAll(String(path[..<slash])) }
        try make(path)
    }

    /// The directory of a path.
    package static func parent(of path: String) -> String {
        path.utf8.lastIndex(of: UInt8(ascii: "/")).map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    }

    /// Throws if other users can write to it, since they could replace its files, or if this user cannot.
    package static func check(_ path: String) throws(StorageError) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { throw StorageError(.notReadable, path: path) }
        guard facts.st_mode & 0o022 == 0 else { throw StorageError(.accessibleToOthers, path: path) }
        guard access(path, W_OK | X_OK) == 0 else { throw StorageError(system: errno, path: path) }
    }

    /// The names in a directory, sorted by their bytes, without those that are not UTF-8; empty if it does not exist.
    package static func names(in path: String) throws(StorageError) -> [String] {
        try names(in: open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path: path)
    }

    /// - Parameter descriptor: It is closed at the end; negative if `errno` says why there is none.
    static func names(in descriptor: Int32, path: String) throws(StorageError) -> [String] {
        guard descriptor >= 0 else {
            if errno == ENOENT { return [] }
            throw StorageError(.notReadable, path: path)
        }
        guard let directory = fdopendir(descriptor) else {
            close(descriptor)
            throw StorageError(.notReadable, path: path)
        }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: $0.pointee)) { String(validatingCString: $0) }
            }
            if let name, name != ".", name != ".." { names.append(name) }
        }
        return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    /// Flushes a directory, so that the names in it are on disk.
    package static func flush(_ path: String) throws(StorageError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw StorageError(system: errno, path: path) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw StorageError(system: errno, path: path) }
    }
}
