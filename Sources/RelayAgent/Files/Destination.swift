// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage

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
        // A folder, or a link to one.
        if let folder = try? OpenFile.folder(at: output) {
            self.init(try name(), in: folder, output)
            return
        }
        let place = try Self.place(of: output)
        let facts: FileFacts?
        do { facts = try place.folder.facts(of: place.name) } catch { throw AgentError(error, output) }
        guard facts != nil || !place.isLinked else { throw AgentError("notAFile", "'\(output)' is a broken link", .usage) }
        guard facts?.isFile ?? true else {
            if facts?.isFolder == true { throw AgentError(SystemError(EACCES), output) }
            throw AgentError("notAFile", "'\(output)' is not a file; use `-o -`, and let the shell write to it", .usage)
        }
        self.init(folder: place.folder, name: place.name, shown: output)
    }

    private init(folder: OpenFile, name: EntryName, shown: String) {
        self.folder = folder
        self.name = name
        self.shown = shown
    }

    /// The folder and name that a path leads to. If the name is a link, its target.
    private static func place(of output: String) throws(AgentError) -> (folder: OpenFile, name: EntryName, isLinked: Bool) {
        var (path, folder): (String, OpenFile?) = (output, nil)
        // The kernel's own limit of links in a path.
        for links in 0..<40 {
            let (parent, last) = parts(path)
            guard let name = EntryName(local: last) else {
                throw AgentError("fileNotWritable", "there is no folder '\(output)'", .failed)
            }
            let next: OpenFile
            do { next = try OpenFile.folder(at: parent, from: folder) } catch { throw AgentError(error, output) }
            guard let target = next.target(of: name) else { return (next, name, links > 0) }
            (path, folder) = (target, next)
        }
        throw AgentError("notAFile", "'\(output)' is a circle of links", .usage)
    }

    /// The destination of a file in an open folder.
    init(_ name: EntryName, in folder: OpenFile, _ shown: String) {
        self.init(folder: folder, name: name, shown: Self.join(shown, name))
    }

    /// Opens a folder that the user named, and creates it if it does not exist.
    static func makeFolder(at path: String) throws(AgentError) -> OpenFile {
        do {
            return try OpenFile.folder(at: path, creates: true)
        } catch {
            guard ![ENOSPC, EDQUOT].contains(error.number) else { throw AgentError(error, path) }
            throw AgentError("fileNotWritable", "the folder '\(path)' cannot be created", .failed)
        }
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
        let isFull = error.number == ENOSPC || error.number == EDQUOT
        self.init(isFull ? "diskFull" : "fileNotWritable", "'\(path)' cannot be written\(why)", .failed)
    }
}
