// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Files that only their owner may read.
enum PrivateFile {
    enum Failure: Error {
        /// The system's error number.
        case system(Int32)
        /// Others may read it.
        case exposed
    }

    /// The first bytes of a file, up to a limit; `nil` if there is none.
    static func contents(of path: String, upTo limit: Int) throws(Failure) -> [UInt8]? {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        if file < 0 {
            if errno == ENOENT { return nil }
            throw .system(errno)
        }
        defer { close(file) }
        // Not by `fstat`: which module its result is of depends on how much of the module is compiled at once.
        guard let mode = (try? FileManager.default.attributesOfItem(atPath: path))?[.posixPermissions] as? Int else {
            throw .system(EACCES)
        }
        guard mode & 0o077 == 0 else { throw .exposed }
        var bytes = [UInt8](repeating: 0, count: limit)
        let count = read(file, &bytes, limit)
        guard count >= 0 else { throw .system(errno) }
        return Array(bytes.prefix(count))
    }

    /// Makes a file, which is whole when it appears and survives a loss of power.
    /// - Returns: `false` if there is one already: of two processes that do this, one wins.
    static func create(_ path: String, with bytes: [UInt8]) throws(Failure) -> Bool {
        let draft = "\(path).\(Base64.url.encode(randomBytes(9)))"
        let file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw .system(errno) }
        defer {
            close(file)
            unlink(draft)
        }
        guard write(file, bytes, bytes.count) == bytes.count, fsync(file) == 0 else { throw .system(errno) }
        guard link(draft, path) == 0 else {
            if errno == EEXIST { return false }
            throw .system(errno)
        }
        let parent = path.utf8.lastIndex(of: UInt8(ascii: "/")).map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let directory = open(parent, O_RDONLY | O_CLOEXEC)
        guard directory >= 0 else { throw .system(errno) }
        defer { close(directory) }
        guard fsync(directory) == 0 else { throw .system(errno) }
        return true
    }

    /// Makes an empty file if there is none.
    static func touch(_ path: String) throws(Failure) {
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw .system(errno) }
        close(file)
    }

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }
}
