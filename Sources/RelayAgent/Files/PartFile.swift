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

/// A file that is on its way: `.NAME.relay-part` in the folder where it will be, for this user alone. `.NAME.relay-mark` says which file it
/// is a part of, so that a transfer goes on with that file only, and is locked meanwhile. What has these names and is not of a transfer is
/// never touched: without a mark a part is made anew or not at all.
struct PartFile: Sendable {
    enum Failure: Error {
        /// Another process is at it.
        case busy
        /// Something else has this name.
        case occupied(EntryName)
        /// The file's own name was given to something else meanwhile.
        case exists
        case system(SystemError)
    }

    /// Which file of which device it is.
    struct Source: Sendable {
        var device: String
        var app: String
        var path: String
        var entry: RemoteEntry
    }

    private static let beginning = Array("relay-mark 1 ".utf8)

    private let folder: OpenFile
    private let name: EntryName
    private let file: OpenFile
    /// Open, so that it stays locked.
    private let mark: OpenFile
    /// How much of it was here already.
    let start: Int64

    init(_ name: EntryName, in folder: OpenFile, of source: Source) throws(Failure) {
        (self.folder, self.name) = (folder, name)
        let text = Self.beginning + Array(Self.digest(source).utf8)
        let written: [UInt8]
        do throws(SystemError) {
            mark = try Self.mark(name, in: folder)
            written = try mark.read(from: 0, count: text.count + 1)
            guard written.isEmpty || written.starts(with: Self.beginning) else { throw SystemError(EEXIST) }
        } catch {
            throw Self.failure(error, at: name.mark)
        }
        do throws(SystemError) {
            if let facts = try folder.facts(of: name.part) {
                // Without a mark only an empty one is of a transfer, which had just begun.
                guard facts.isFile, facts.isUnshared, !written.isEmpty || facts.size == 0 else {
                    if written.isEmpty { folder.remove(name.mark) }
                    throw SystemError(EEXIST)
                }
                file = try folder.open(name.part, O_RDWR)
            } else {
                file = try folder.open(name.part, O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
            }
            let facts = try file.facts()
            guard facts.isFile, facts.isUnshared else { throw SystemError(EEXIST) }
            // One that was whole may have got another mode.
            file.setPermissions(0o600)
            if written == text, facts.size <= source.entry.size {
                start = facts.size
            } else {
                // First what is of another file goes, then the mark says that it is of this one.
                try file.truncate()
                try mark.truncate()
                try mark.write(text, at: 0)
                start = 0
            }
        } catch {
            throw Self.failure(error, at: name.part)
        }
    }

    private static func failure(_ error: SystemError, at name: EntryName) -> Failure {
        switch error.number {
        case EWOULDBLOCK: .busy
        case EEXIST, ELOOP, ENOTDIR, EISDIR, ENXIO: .occupied(name)
        default: .system(error)
        }
    }

    func write(_ bytes: [UInt8], at offset: Int64) throws(Failure) {
        do { try file.write(bytes, at: offset) } catch { throw .system(error) }
    }

    /// Gives the whole file its name. One that replaces another is for those whom the other was for.
    /// - Parameter replaces: Whether a file of that name is replaced; nothing else ever is.
    func publish(modified: Date, replaces: Bool) throws(Failure) {
        do throws(SystemError) {
            file.setModified(modified)
            try file.synchronize()
            if replaces, let there = try folder.facts(of: name) {
                guard there.isFile else { throw SystemError(EEXIST) }
                file.setPermissions(there.permissions)
                try folder.replace(name, with: name.part)
            } else {
                file.setPermissions(OpenFile.newFilePermissions)
                try folder.rename(name.part, to: name)
            }
        } catch {
            throw error.number == EEXIST ? .exists : .system(error)
        }
        folder.remove(name.mark)
    }

    /// Opens and locks the mark; a new one is empty.
    private static func mark(_ name: EntryName, in folder: OpenFile) throws(SystemError) -> OpenFile {
        while true {
            let mark: OpenFile
            do throws(SystemError) {
                mark = try folder.open(name.mark, O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
            } catch {
                guard error.number == EEXIST else { throw error }
                do throws(SystemError) {
                    mark = try folder.open(name.mark, O_RDWR)
                } catch {
                    // The process whose mark it was has just ended its transfer.
                    if error.number == ENOENT { continue }
                    throw error
                }
            }
            guard mark.lock() else { throw SystemError(EWOULDBLOCK) }
            let facts = try mark.facts()
            if facts.isRemoved { continue }
            guard facts.isFile, facts.isUnshared else { throw SystemError(EEXIST) }
            return mark
        }
    }

    private static func digest(_ source: Source) -> String {
        let facts = [source.device, source.app, source.path, String(source.entry.size), source.entry.etag]
        // Each with its length, so that no two lists make one text.
        let text = facts.map { "\($0.utf8.count):\($0)" }.joined()
        return "\(Digest256(hashing: Array(text.utf8)))"
    }
}
