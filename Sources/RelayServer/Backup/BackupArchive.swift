// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import RelayProtocol
import RelayStorage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The complete state of a relay in one archive: a description with the digest of each file, then the files.
package enum BackupArchive {
    /// The file names, in the order of the archive.
    package static let names = ["relay.key", "relay.sqlite", "issuer.key", "issuer.sqlite"]
    private static let descriptionName = "backup.json"
    private static let maximumDescriptionBytes: Int64 = 64 << 10
    /// The maximum number of bytes in memory at a time.
    private static let pieceBytes: Int64 = 1 << 20

    /// The description at the start of an archive.
    package struct Description: Codable, Hashable, Sendable {
        package var format = 1
        package var relay: String
        /// Milliseconds since 1970.
        package var made: Int64
        /// The build of `relayd` that made it; `nil` in a backup of an older version.
        package var version: String?
        /// SHA-256 of each file, in hexadecimal.
        package var files: [String: String]

        package init(relay: String, made: Int64, version: String? = nil, files: [String: String] = [:]) {
            self.relay = relay
            self.made = made
            self.version = version
            self.files = files
        }
    }

    // MARK: Writing

    /// Archives the files of a draft, in the draft. The archive is on disk.
    /// - Returns: Its path.
    package static func write(_ description: Description, of directory: BackupDraft) throws -> String {
        let directory = directory.path
        var description = description
        for name in names { description.files[name] = try digest(of: directory + "/" + name) }
        let draft = directory + "/archive"
        let file = try StorageFile(creating: draft)
        let time = description.made / 1_000
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
        let text = try encoder.encode(description)
        try file.append(header(descriptionName, Int64(text.count), for: draft).encoded(time: time))
        try file.append([UInt8](text))
        try file.append([UInt8](repeating: 0, count: TarHeader.padding(of: Int64(text.count))))
        for name in names { try add(directory + "/" + name, as: name, time: time, to: file) }
        // Two zero blocks end an archive.
        try file.append([UInt8](repeating: 0, count: 2 * TarHeader.blockBytes))
        try file.flush()
        return draft
    }

    /// Passes on the bytes of an archive, in pieces.
    package static func read(_ path: String, _ body: ([UInt8]) throws -> Void) throws {
        let archive = try open(path)
        while true {
            let piece = try archive.next(Int(pieceBytes))
            if piece.isEmpty { return }
            try body(piece)
        }
    }

    private static func header(_ name: String, _ size: Int64, for path: String) throws -> TarHeader {
        guard let header = TarHeader(name: name, size: size) else { throw StorageError(system: EFBIG, path: path) }
        return header
    }

    private static func add(_ source: String, as name: String, time: Int64, to file: borrowing StorageFile) throws {
        let content = try open(source)
        let size = try content.facts().size
        try file.append(header(name, size, for: file.path).encoded(time: time))
        var rest = size
        while rest > 0 {
            let piece = try content.next(Int(min(rest, pieceBytes)))
            guard !piece.isEmpty else { throw StorageError(.notReadable, path: source) }
            try file.append(piece)
            rest -= Int64(piece.count)
        }
        try file.append([UInt8](repeating: 0, count: TarHeader.padding(of: size)))
    }

    /// Copies a small file.
    package static func copy(_ source: String, to destination: String) throws {
        try StorageFile(creating: destination).append(try open(source).next(Int(pieceBytes)))
    }

    /// Opens a file for reading. The operator has chosen the path, or that of the directory.
    private static func open(_ path: String) throws -> StorageFile {
        guard let file = try StorageFile(reading: path, isChosen: true) else { throw StorageError(.notReadable, path: path) }
        return file
    }

    private static func digest(of path: String) throws -> String {
        let file = try open(path)
        var hash = SHA256()
        while true {
            let piece = try file.next(Int(pieceBytes))
            if piece.isEmpty { return hexadecimal(hash.finalize()) }
            hash.update(data: piece)
        }
    }

    private static func hexadecimal(_ digest: SHA256.Digest) -> String {
        Hexadecimal.encode(digest)
    }

    // MARK: Reading

    /// Unpacks an archive into an empty directory. The archive is not trusted: only the known names are accepted, each once
    /// and in order, and each file must match the digest of the description.
    package static func unpack(_ path: String, into directory: String) throws -> Description {
        try read(open(path)) { archive, name, size, description in
            guard try unpack(size, of: archive, to: directory + "/" + name) == description.files[name] else {
                throw BackupError.damaged(path, "\(name) has changed since it was made")
            }
        }
    }

    /// What an archive says of itself, if it has all its files in their full length. Their content is not read.
    /// - Parameter path: Not trusted, as the file is not: no link is followed, and nothing but a regular file is read.
    package static func outline(_ path: String) throws -> Description {
        guard let archive = try StorageFile(reading: path), try archive.facts().isRegular else {
            throw StorageError(.notReadable, path: path)
        }
        let size = try archive.facts().size
        var end = Int64(0)
        let description = try read(archive) { archive, _, length, _ in
            let (next, isTooLong) = length.addingReportingOverflow(Int64(TarHeader.padding(of: length)))
            guard !isTooLong, next <= size else { throw BackupError.damaged(path, "it is cut off") }
            end = try archive.skip(next)
        }
        // A file system may have lost the end of a file, and its length says so.
        guard end <= size else { throw BackupError.damaged(path, "it is cut off") }
        return description
    }

    /// Reads the description, and the header of each file.
    /// - Parameter body: Passes over the content of a file: its name and its size.
    private static func read(
        _ archive: borrowing StorageFile,
        _ body: (borrowing StorageFile, String, Int64, Description) throws -> Void
    ) throws -> Description {
        let path = archive.path
        let header = try nextHeader(of: archive)
        guard header.name == descriptionName, header.size <= maximumDescriptionBytes else {
            throw BackupError.damaged(path, "it does not begin with \(descriptionName)")
        }
        let text = try exactly(Int(header.size), of: archive)
        _ = try exactly(TarHeader.padding(of: header.size), of: archive)
        guard let description = try? JSONDecoder().decode(Description.self, from: Data(text)) else {
            throw BackupError.damaged(path, "\(descriptionName) cannot be read")
        }
        guard description.format == 1 else { throw BackupError.damaged(path, "it was made by a newer version") }
        for name in names {
            let header = try nextHeader(of: archive)
            guard header.name == name else { throw BackupError.damaged(path, "\(name) is missing") }
            try body(archive, name, header.size, description)
        }
        guard try exactly(2 * TarHeader.blockBytes, of: archive).allSatisfy({ $0 == 0 }) else {
            throw BackupError.damaged(path, "its end is missing")
        }
        return description
    }

    /// - Returns: The digest of the written bytes.
    private static func unpack(_ size: Int64, of archive: borrowing StorageFile, to path: String) throws -> String {
        let file = try StorageFile(creating: path)
        var hash = SHA256()
        var rest = size
        while rest > 0 {
            let piece = try archive.next(Int(min(rest, pieceBytes)))
            guard !piece.isEmpty else { throw BackupError.damaged(archive.path, "it is cut off") }
            hash.update(data: piece)
            try file.append(piece)
            rest -= Int64(piece.count)
        }
        try file.flush()
        _ = try exactly(TarHeader.padding(of: size), of: archive)
        return hexadecimal(hash.finalize())
    }

    private static func nextHeader(of archive: borrowing StorageFile) throws -> TarHeader {
        guard let header = TarHeader(decoding: try exactly(TarHeader.blockBytes, of: archive)) else {
            throw BackupError.damaged(archive.path, "it contains a file that is not a relay's")
        }
        return header
    }

    private static func exactly(_ count: Int, of archive: borrowing StorageFile) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let piece = try archive.next(count - bytes.count)
            guard !piece.isEmpty else { throw BackupError.damaged(archive.path, "it is cut off") }
            bytes += piece
        }
        return bytes
    }
}
