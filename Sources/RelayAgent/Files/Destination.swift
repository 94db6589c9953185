// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

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

/// The destination of a file: a name in an open folder.
struct Destination: Sendable {
    let folder: OpenFile
    let name: EntryName
    /// The path to show to the user.
    let shown: String

    /// The destination that the user chose.
    /// - Parameters:
    ///   - output: the path from the user: a file, a folder, or a link to one. Other kinds are never replaced.
    ///   - name: the name of the file if the output is a folder, or `nil`.
    init(output: String?, name: @autoclosure () throws(AgentError) -> EntryName) throws(AgentError) {
        guard let output else {
            let name = try name()
            self.init(folder: try Self.folder(at: "."), name: name, shown: name.text)
            return
        }
        guard let facts = FileFacts(path: output, followsLinks: true) else {
            guard FileFacts(path: output, followsLinks: false) == nil else {
                throw AgentError("notAFile", "'\(output)' is a broken link", .usage)
            }
            try self.init(path: output, shown: output)
            return
        }
        if facts.isFolder {
            self.init(try name(), in: try Self.folder(at: output), output)
        } else {
            guard facts.isFile else {
                throw AgentError("notAFile", "'\(output)' is not a file; use `-o -`, and let the shell write to it", .usage)
            }
            guard let path = realpath(output, nil) else { throw AgentError(SystemError(), output) }
            defer { free(path) }
            try self.init(path: String(cString: path), shown: output)
        }
    }

    private init(folder: OpenFile, name: EntryName, shown: String) {
        self.folder = folder
        self.name = name
        self.shown = shown
    }

    private init(path: String, shown: String) throws(AgentError) {
        let (folder, last) = Self.parts(path)
        guard let name = EntryName(local: last) else {
            throw AgentError("fileNotWritable", "there is no folder '\(shown)'", .failed)
        }
        self.init(folder: try Self.folder(at: folder), name: name, shown: shown)
    }

    /// The destination of a file in an open folder.
    init(_ name: EntryName, in folder: OpenFile, _ shown: String) {
        self.init(folder: folder, name: name, shown: Self.join(shown, name))
    }

    /// Opens a folder that the user named, and creates it if it does not exist.
    static func makeFolder(at path: String) throws(AgentError) -> OpenFile {
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw AgentError("fileNotWritable", "the folder '\(path)' cannot be created", .failed)
        }
        return try folder(at: path)
    }

    static func folder(at path: String) throws(AgentError) -> OpenFile {
        do { return try OpenFile.folder(at: path) } catch { throw AgentError(error, path) }
    }

    static func join(_ folder: String, _ name: EntryName) -> String {
        folder.utf8.last == UInt8(ascii: "/") ? folder + name.text : "\(folder)/\(name.text)"
    }

    /// The folder of a path, and the text after the last separator.
    private static func parts(_ path: String) -> (folder: String, name: String) {
        let bytes = Array(path.utf8)
        guard let end = bytes.lastIndex(of: UInt8(ascii: "/")) else { return (".", path) }
        return (end == 0 ? "/" : String(decoding: bytes[..<end], as: UTF8.self), String(decoding: bytes[(end + 1)...], as: UTF8.self))
    }
}

extension AgentError {
    /// The error for a local file or folder that cannot be written.
    init(_ error: SystemError, _ path: String) {
        let why =
            switch error.number {
            case ENOSPC, EDQUOT: ": the disk is full"
            case EACCES, EPERM, EROFS: ": permission denied"
            case ENOENT: ": the folder is not there"
            case ENOTDIR: ": a part of the path is not a folder"
            default: ""
            }
        self.init("fileNotWritable", "'\(path)' cannot be written\(why)", .failed)
    }
}
