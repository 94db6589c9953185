// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage

/// The files and folders that are to be sent, as they were found on the disk.
struct ShareCollection: Sendable {
    /// A file or folder to send.
    struct Entry: Sendable {
        enum Content: Sendable {
            /// - Parameters:
            ///   - root: The open folder that has the top entry.
            ///   - names: The names from there as they are on this disk.
            ///   - etag: The size, times and identity of a file when it was found.
            case disk(root: OpenFile, names: [EntryName], etag: String)
            case stream(ShareStream)
        }

        let offered: ShareOffer.RawEntry
        let content: Content
    }

    private(set) var entries: [Entry] = []
    private(set) var notes: [ShareOffer.Note] = []
    private(set) var leftOut: [NearShareReport.LeftOut] = []

    /// Whether all of it can be read again.
    var canRepeat: Bool {
        entries.allSatisfy { entry in
            guard case .stream(let stream) = entry.content else { return true }
            return !stream.hasBegun
        }
    }

    /// Finds what items consist of. Links inside folders, pipes, devices and names that cannot be sent are left out.
    /// - Throws: `fileNotReadable`, `notFound` or `nothingToSend` for an item that cannot be sent at all.
    init(_ items: [NearShareItem]) throws(NearShareError) {
        var tops: Set<EntryName> = []
        for item in items {
            switch item.content {
            case .note(let note): notes.append(note)
            case .file(let path): try add(path, &tops)
            case .stream(let stream, let name, let size, let modified):
                try Self.add(name.composed, to: &tops)
                let offered = ShareOffer.RawEntry(path: [name.composed.text], size: size, modified: modified)
                entries.append(Entry(offered: offered, content: .stream(stream)))
            }
        }
        guard !entries.isEmpty || !notes.isEmpty else { throw NearShareError(.failed, "there is nothing to send") }
    }

    private mutating func add(_ path: String, _ tops: inout Set<EntryName>) throws(NearShareError) {
        // The name of `.`, `..` or a link is that of what it leads to.
        let bytes = Array(path.utf8)
        guard !bytes.isEmpty, !bytes.contains(0) else { throw NearShareError(.fileNotFound, "a path is empty, or has U+0000") }
        let trimmed = String(decoding: bytes.prefix(upTo: (bytes.lastIndex { $0 != UInt8(ascii: "/") } ?? 0) + 1), as: UTF8.self)
        guard let facts = FileFacts(path: path, followsLinks: true) else {
            throw NearShareError(.fileNotFound, "there is no file or folder '\(DisplayText.sanitized(path))'")
        }
        guard facts.isFile || facts.isFolder else {
            throw NearShareError(.fileNotReadable, "'\(DisplayText.sanitized(path))' is neither a file nor a folder")
        }
        guard let real = realpath(trimmed, nil) else { throw Self.notReadable(path) }
        defer { free(real) }
        let resolved = Array(String(cString: real).utf8)
        let slash = resolved.lastIndex(of: UInt8(ascii: "/")) ?? 0
        let (folder, last) = (resolved[..<slash], Array(resolved[(slash + 1)...]))
        // A link keeps its own name.
        let own = trimmed.utf8.split(separator: UInt8(ascii: "/")).last.map { Array($0) } ?? []
        guard let disk = EntryName(local: String(decoding: last, as: UTF8.self)) else { throw Self.notReadable(path) }
        let isOwnAName = EntryName(local: String(decoding: own, as: UTF8.self)) != nil
        guard let name = EntryName(String(decoding: isOwnAName ? own : last, as: UTF8.self))?.composed, EntryName(name.text) != nil else {
            throw NearShareError(.fileNotReadable, "'\(EntryName.shown(own))' has a name that cannot be sent")
        }
        try Self.add(name, to: &tops)
        let root: OpenFile
        do {
            root = try OpenFile.folder(at: folder.isEmpty ? "/" : String(decoding: folder, as: UTF8.self))
            guard facts.isFolder else {
                // A file that cannot be read is an error now, and not after the rest is sent.
                _ = try root.open(disk, O_RDONLY)
                return entries.append(.init(file: facts, path: [name.text], root, [disk]))
            }
            entries.append(.init(folder: facts, path: [name.text], root, [disk]))
            try addContent(of: try root.open(disk, O_RDONLY | O_DIRECTORY), [name.text], root, [disk])
        } catch {
            throw Self.notReadable(path)
        }
    }

    private static func add(_ name: EntryName, to tops: inout Set<EntryName>) throws(NearShareError) {
        guard tops.count < ShareLimits.tops else {
            let what = "one transfer has at most \(ShareLimits.tops) files and folders; put them in a folder, and send that"
            throw NearShareError(.tooLarge, what)
        }
        guard tops.insert(name).inserted else {
            throw NearShareError(.failed, "two of the files have the name '\(name)'; send them one after the other")
        }
    }

    private static func notReadable(_ path: String) -> NearShareError {
        NearShareError(.fileNotReadable, "'\(DisplayText.sanitized(path))' cannot be read")
    }

    private mutating func addContent(of folder: OpenFile, _ path: [String], _ root: OpenFile, _ names: [EntryName]) throws(SystemError) {
        var composed: Set<EntryName> = []
        for bytes in try folder.names().sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            func leaveOut(_ reason: NearShareReport.LeftOut.Reason) {
                leftOut.append(.init(path: (path + [EntryName.shown(bytes)]).joined(separator: "/"), reason: reason))
            }
            if let defect = EntryName.defect(bytes) {
                // An unfinished transfer is not a file of the person.
                if defect != .unfinished { leaveOut(.nameNotPossible) }
                continue
            }
            guard let name = EntryName(String(decoding: bytes, as: UTF8.self)) else { continue }
            guard let facts = FileFacts(name, in: folder.descriptor) else {
                if errno != ENOENT { leaveOut(.notReadable) }
                continue
            }
            guard facts.isFile || facts.isFolder else {
                leaveOut(facts.isLink ? .link : .special)
                continue
            }
            guard composed.insert(name.composed).inserted, path.count < ShareLimits.depth else {
                leaveOut(.nameNotPossible)
                continue
            }
            let (inner, innerNames) = (path + [name.composed.text], names + [name])
            guard facts.isFolder else {
                entries.append(.init(file: facts, path: inner, root, innerNames))
                continue
            }
            guard let next = try? folder.open(name, O_RDONLY | O_DIRECTORY) else {
                leaveOut(.notReadable)
                continue
            }
            entries.append(.init(folder: facts, path: inner, root, innerNames))
            do throws(SystemError) {
                try addContent(of: next, inner, root, innerNames)
            } catch {
                leaveOut(.notReadable)
            }
        }
    }
}

extension ShareCollection.Entry {
    fileprivate init(file facts: FileFacts, path: [String], _ root: OpenFile, _ names: [EntryName]) {
        let offered = ShareOffer.RawEntry(path: path, size: facts.size, modified: facts.modifiedMilliseconds)
        self.init(offered: offered, content: .disk(root: root, names: names, etag: facts.etag))
    }

    fileprivate init(folder facts: FileFacts, path: [String], _ root: OpenFile, _ names: [EntryName]) {
        let offered = ShareOffer.RawEntry(path: path, size: nil, modified: facts.modifiedMilliseconds)
        self.init(offered: offered, content: .disk(root: root, names: names, etag: facts.etag))
    }

    /// Opens a file for reading, without following a link inside the top entry.
    /// - Throws: `ShareSource.Changed` if it is not the file that was found; `SystemError`.
    fileprivate static func open(_ names: [EntryName], in root: OpenFile, etag: String) throws -> OpenFile {
        var folder = root
        for name in names.dropLast() { folder = try folder.open(name, O_RDONLY | O_DIRECTORY) }
        guard let name = names.last else { throw SystemError(ENOENT) }
        let file = try folder.open(name, O_RDONLY)
        guard try file.facts().etag == etag else { throw ShareSource.Changed() }
        return file
    }
}

extension ShareSource {
    /// Reads the files of a collection.
    /// - Parameter have: What the receiver has from an earlier transfer, by entry.
    init(_ collection: ShareCollection, have: [Int: ShareMessages.Have]) {
        self.init(
            collection.entries.enumerated().compactMap { number, entry in
                guard let size = entry.offered.size else { return nil }
                switch entry.content {
                case .disk(let root, let names, let etag):
                    return File(entry: UInt32(number), have: have[number]) {
                        try ShareCollection.Entry.open(names, in: root, etag: etag)
                    }
                case .stream(let stream): return File(entry: UInt32(number), stream, size: size)
                }
            }
        )
    }
}
