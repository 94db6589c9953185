// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage

/// One folder of this machine, read only. No path leads out of it: each name is opened relative to its parent folder,
/// links are never followed, and only files and folders are opened.
struct SharedFolder: Sendable {
    typealias Problem = FileServiceMessages.Problem

    struct Failure: Error {
        var problem: Problem
    }

    /// The size limit of a path: 64 names of maximum length.
    static let maximumPathBytes = 16 << 10

    let root: String

    // MARK: Requests

    func entry(_ path: String) throws(Failure) -> FileServiceMessages.Entry {
        let names = try Self.names(path)
        return Self.entry(names.last?.text ?? "", try facts(try open(names)))
    }

    /// A page of a listing: at most `most` entries, and what was left out between them.
    func entries(_ path: String, after: String?, most: Int) throws(Failure) -> FileServiceMessages.List.Response {
        let folder = try open(try Self.names(path))
        guard try facts(folder).isFolder else { throw Failure(problem: .notAFolder) }
        var names: [[UInt8]]
        do { names = try folder.names() } catch { throw Failure(problem: .failed) }
        if let after { names.removeAll { !after.utf8.lexicographicallyPrecedes($0) } }
        names.sort { $0.lexicographicallyPrecedes($1) }
        var (entries, omitted): ([FileServiceMessages.Entry], [FileServiceMessages.Omission]) = ([], [])
        var omittedMore = 0
        func leaveOut(_ name: [UInt8], _ reason: FileServiceMessages.Omission.Reason) {
            guard omitted.count < most else { return omittedMore += 1 }
            omitted.append(.init(name: EntryName.shown(name), reason: reason.rawValue))
        }
        var isAtEnd = true
        for (index, bytes) in names.enumerated() {
            guard let name = EntryName(String(decoding: bytes, as: UTF8.self)), EntryName.defect(bytes) == nil else {
                leaveOut(bytes, .init(EntryName.defect(bytes) ?? .notUTF8))
                continue
            }
            guard let facts = FileFacts(name, in: folder.descriptor) else {
                // A file that has just been removed is not left out.
                if errno != ENOENT { leaveOut(bytes, .unreadable) }
                continue
            }
            guard facts.isFile || facts.isFolder else {
                leaveOut(bytes, facts.isLink ? .link : .special)
                continue
            }
            entries.append(Self.entry(name.text, facts))
            if entries.count == most {
                isAtEnd = index == names.count - 1
                break
            }
        }
        return .init(
            entries: entries,
            more: !isAtEnd,
            omitted: omitted.isEmpty ? nil : omitted,
            omittedMore: omittedMore == 0 ? nil : omittedMore
        )
    }

    /// Opens a file whose content is to be sent.
    /// - Throws: `changed` if it has another etag.
    func open(_ path: String, etag: String) throws(Failure) -> OpenFile {
        let file = try open(try Self.names(path))
        let facts = try facts(file)
        guard facts.isFile else { throw Failure(problem: .notAFile) }
        guard facts.etag == etag else { throw Failure(problem: .changed) }
        return file
    }

    private func facts(_ file: OpenFile) throws(Failure) -> FileFacts {
        do { return try file.facts() } catch { throw Failure(problem: .failed) }
    }

    // MARK: Path resolution

    /// The names of a path. The separator is a byte, not a character.
    static func names(_ path: String) throws(Failure) -> [EntryName] {
        guard !path.isEmpty else { return [] }
        guard path.utf8.count <= maximumPathBytes else { throw Failure(problem: .notAllowed) }
        var names: [EntryName] = []
        for part in path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            guard let name = EntryName(String(decoding: part, as: UTF8.self)) else { throw Failure(problem: .notAllowed) }
            names.append(name)
        }
        return names
    }

    /// Opens the names one after the other, each relative to its parent folder.
    private func open(_ names: [EntryName]) throws(Failure) -> OpenFile {
        var file: OpenFile
        // The shared folder itself may be a link: the user configured it.
        do { file = try OpenFile.folder(at: root) } catch { throw Failure(problem: .failed) }
        for name in names {
            guard let facts = FileFacts(name, in: file.descriptor) else { throw Failure(problem: .notFound) }
            guard !facts.isLink else { throw Failure(problem: .notAllowed) }
            // Opening a pipe would block, and opening a device may have side effects.
            guard facts.isFile || facts.isFolder else { throw Failure(problem: .notFound) }
            let next: OpenFile
            do throws(SystemError) {
                next = try file.open(name, O_RDONLY)
            } catch {
                switch error.number {
                case ELOOP, EMLINK: throw Failure(problem: .notAllowed)
                case ENOENT, ENOTDIR: throw Failure(problem: .notFound)
                default: throw Failure(problem: .failed)
                }
            }
            // The entry may have been replaced since it was checked.
            let opened = try self.facts(next)
            guard opened.isFile || opened.isFolder else { throw Failure(problem: .notFound) }
            file = next
        }
        return file
    }

    private static func entry(_ name: String, _ facts: FileFacts) -> FileServiceMessages.Entry {
        FileServiceMessages.Entry(
            name: name,
            kind: facts.isFolder ? .folder : .file,
            size: facts.isFolder ? 0 : facts.size,
            modified: facts.modified,
            etag: facts.etag
        )
    }
}
