// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol
import RelayStorage

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

/// The complete state of a relay in one archive: a description with the digest of each file, then the files.
package enum BackupArchive {
    /// The file names, in the order of the archive.
    package static let names = ["relay.key", "relay.sqlite", "issuer.key", "issuer.sqlite"]
    private static let descriptionName = "backup.json"
    private static let maximumDescriptionBytes: Int64 = 64 << 10

    /// The description at the start of an archive.
    package struct Description: Codable, Hashable, Sendable {
        package var format = 1
        package var relay: String
        /// Milliseconds since 1970.
        package var made: Int64
        /// SHA-256 of each file, in hexadecimal.
        package var files: [String: String]

        package init(relay: String, made: Int64, files: [String: String] = [:]) {
            self.relay = relay
            self.made = made
            self.files = files
        }
    }

    // MARK: Writing

    /// Archives the files of a draft. The archive appears atomically and complete, and survives a loss of power.
    /// - Parameters:
    ///   - path: A file beside the draft.
    ///   - replacing: Whether it may replace an existing file.
    package static func write(
        _ description: Description,
        of directory: BackupDraft,
        to path: String,
        replacing: Bool
    ) throws(BackupError) {
        let directory = directory.path
        var description = description
        for name in names { description.files[name] = try digest(of: directory + "/" + name) }
        let draft = directory + "/archive"
        let file = try BackupFile(creating: draft)
        let time = description.made / 1_000
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
        guard let text = try? encoder.encode(description) else { throw .notWritable(path, code: EINVAL) }
        try file.add(header(descriptionName, Int64(text.count), for: path).encoded(time: time))
        try file.add([UInt8](text))
        try file.add([UInt8](repeating: 0, count: TarHeader.padding(of: Int64(text.count))))
        for name in names { try add(directory + "/" + name, as: name, time: time, to: file) }
        // Two zero blocks end an archive.
        try file.add([UInt8](repeating: 0, count: 2 * TarHeader.blockBytes))
        try file.sync()
        try publish(draft, as: path, replacing: replacing)
    }

    private static func header(_ name: String, _ size: Int64, for path: String) throws(BackupError) -> TarHeader {
        guard let header = TarHeader(name: name, size: size) else { throw .notWritable(path, code: EFBIG) }
        return header
    }

    private static func add(_ source: String, as name: String, time: Int64, to file: borrowing BackupFile) throws(BackupError) {
        guard let size = (try? FileManager.default.attributesOfItem(atPath: source))?[.size] as? Int else {
            throw .notReadable(source, code: ENOENT)
        }
        try file.add(header(name, Int64(size), for: file.path).encoded(time: time))
        let content = try BackupFile(reading: source)
        var rest = size
        while rest > 0 {
            let piece = try content.next(min(rest, BackupFile.pieceBytes))
            guard !piece.isEmpty else { throw .notReadable(source, code: EIO) }
            try file.add(piece)
            rest -= piece.count
        }
        try file.add([UInt8](repeating: 0, count: TarHeader.padding(of: Int64(size))))
    }

    /// Renames the temporary file to its final name.
    private static func publish(_ draft: String, as path: String, replacing: Bool) throws(BackupError) {
        if replacing {
            guard rename(draft, path) == 0 else { throw .notWritable(path, code: errno) }
        } else {
            // A hard link never replaces a file.
            guard link(draft, path) == 0 else { throw errno == EEXIST ? .exists(path) : .notWritable(path, code: errno) }
        }
        try BackupFile.syncDirectory(PrivateDirectory.parent(of: path))
    }

    /// Flushes a directory to disk, so that its file names survive a loss of power.
    package static func sync(_ directory: String) throws(BackupError) { try BackupFile.syncDirectory(directory) }

    /// Copies a small file.
    package static func copy(_ source: String, to destination: String) throws(BackupError) {
        try BackupFile(creating: destination).add(try BackupFile(reading: source).next(BackupFile.pieceBytes))
    }

    private static func digest(of path: String) throws(BackupError) -> String {
        let file = try BackupFile(reading: path)
        var hash = SHA256()
        while true {
            let piece = try file.next(BackupFile.pieceBytes)
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
    package static func unpack(_ path: String, into directory: String) throws(BackupError) -> Description {
        let archive = try BackupFile(reading: path)
        let header = try nextHeader(of: archive)
        guard header.name == descriptionName, header.size <= maximumDescriptionBytes else {
            throw .damaged(path, "it does not begin with \(descriptionName)")
        }
        let text = try exactly(Int(header.size), of: archive)
        _ = try exactly(TarHeader.padding(of: header.size), of: archive)
        guard let description = try? JSONDecoder().decode(Description.self, from: Data(text)) else {
            throw .damaged(path, "\(descriptionName) cannot be read")
        }
        guard description.format == 1 else { throw .damaged(path, "it was made by a newer version") }
        for name in names {
            let header = try nextHeader(of: archive)
            guard header.name == name else { throw .damaged(path, "\(name) is missing") }
            guard try unpack(header.size, of: archive, to: directory + "/" + name) == description.files[name] else {
                throw .damaged(path, "\(name) has changed since it was made")
            }
        }
        guard try exactly(2 * TarHeader.blockBytes, of: archive).allSatisfy({ $0 == 0 }) else { throw .damaged(path, "its end is missing") }
        return description
    }

    /// - Returns: The digest of the written bytes.
    private static func unpack(_ size: Int64, of archive: borrowing BackupFile, to path: String) throws(BackupError) -> String {
        let file = try BackupFile(creating: path)
        var hash = SHA256()
        var rest = size
        while rest > 0 {
            let piece = try archive.next(Int(min(rest, Int64(BackupFile.pieceBytes))))
            guard !piece.isEmpty else { throw .damaged(archive.path, "it is cut off") }
            hash.update(data: piece)
            try file.add(piece)
            rest -= Int64(piece.count)
        }
        try file.sync()
        _ = try exactly(TarHeader.padding(of: size), of: archive)
        return hexadecimal(hash.finalize())
    }

    private static func nextHeader(of archive: borrowing BackupFile) throws(BackupError) -> TarHeader {
        guard let header = TarHeader(decoding: try exactly(TarHeader.blockBytes, of: archive)) else {
            throw .damaged(archive.path, "it contains a file that is not a relay's")
        }
        return header
    }

    private static func exactly(_ count: Int, of archive: borrowing BackupFile) throws(BackupError) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let piece = try archive.next(count - bytes.count)
            guard !piece.isEmpty else { throw .damaged(archive.path, "it is cut off") }
            bytes += piece
        }
        return bytes
    }
}
