// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import RelayProtocol

/// An incomplete file: `.NAME.relay-part` in the destination folder, accessible to this user only. `.NAME.relay-mark` identifies its
/// source, so that a transfer resumes with the same file only; it is locked during the transfer. A file with these names that no transfer
/// created is never changed: a nonempty part without a mark is an error.
package struct PartFile: Sendable {
    package enum Failure: Error {
        /// Another process is downloading it.
        case busy
        /// A file that no transfer created has this name.
        case occupied(EntryName)
        /// The destination was created meanwhile.
        case exists
        case system(SystemError)
    }

    /// The source of the file.
    package struct Source: Sendable {
        package var device: String
        package var app: String
        package var path: String
        package var size: Int64
        package var etag: String

        package init(device: String, app: String, path: String, size: Int64, etag: String) {
            (self.device, self.app, self.path, self.size, self.etag) = (device, app, path, size, etag)
        }
    }

    private static let beginning = Array("relay-mark 1 ".utf8)

    private let folder: OpenFile
    private let name: EntryName
    private let file: OpenFile
    /// Open, to keep the lock.
    private let mark: OpenFile
    /// The number of bytes from an earlier transfer.
    package let start: Int64

    package init(_ name: EntryName, in folder: OpenFile, of source: Source) throws(Failure) {
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
                // Without a mark, only an empty part can come from a transfer, which was interrupted at its start.
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
            // A complete part may already have its final permissions.
            file.setPermissions(0o600)
            if written == text, facts.size <= source.size {
                start = facts.size
            } else {
                // Removes the old content before the mark names the new source.
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

    package func write(_ bytes: [UInt8], at offset: Int64) throws(Failure) {
        do { try file.write(bytes, at: offset) } catch { throw .system(error) }
    }

    /// Renames the complete file to its own name. If it replaces a file, it keeps that file's permissions.
    /// - Parameter replaces: whether to replace an existing file. Other kinds are never replaced.
    package func publish(modified: Date, replaces: Bool) throws(Failure) {
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

    /// Removes the part and its mark if nothing of the file came: there is nothing to continue.
    package func removeIfEmpty() {
        guard let facts = try? file.facts(), facts.size == 0 else { return }
        folder.remove(name.part)
        folder.remove(name.mark)
    }

    /// Opens and locks the mark. A new one is empty.
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
                    // The process that held the mark has just finished its transfer.
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
        let facts = [source.device, source.app, source.path, String(source.size), source.etag]
        // Each value with its length, so that different lists give different texts.
        let text = facts.map { "\($0.utf8.count):\($0)" }.joined()
        return "\(Digest256(hashing: Array(text.utf8)))"
    }
}
