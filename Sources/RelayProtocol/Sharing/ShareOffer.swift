// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The limits of an offer.
package enum ShareLimits {
    package static let pages = 64
    /// The same of a stranger: they are kept until a person has decided.
    package static let strangerPages = 8
    /// The size of one page, as `ShareOffer.Page.weight` counts it.
    package static let pageBytes = 256 << 10
    /// The names in a path.
    package static let depth = 32
    /// The texts and links of an offer, all together.
    package static let noteBytes = 64 << 10
    package static let idBytes = 16
    /// The files and folders that are in no other one.
    package static let tops = 256
    package static let notes = 64
}

/// What one device wants to send to another: files and folders with all their content, links and texts. It comes in pages.
package struct ShareOffer: Hashable, Sendable {
    /// A file or folder as it is sent.
    package struct RawEntry: Codable, Hashable, Sendable {
        /// Its names, the top entry's first.
        package var path: [String]
        /// In bytes; `nil` for a folder.
        package var size: Int64?
        /// When its content was changed, in milliseconds since 1970.
        package var modified: Int64

        package init(path: [String], size: Int64?, modified: Int64) {
            self.path = path
            self.size = size
            self.modified = modified
        }

        /// What it adds to a page: its text, and a fixed amount for the rest.
        package var weight: Int { path.reduce(64) { $0 + $1.utf8.count + 8 } }
    }

    /// A link or a text.
    package struct Note: Codable, Hashable, Sendable {
        package enum Kind: String, Codable, Sendable {
            case text, uri
        }

        package var kind: Kind
        package var content: String

        package init(_ kind: Kind, _ content: String) {
            self.kind = kind
            self.content = content
        }
    }

    package struct Page: Codable, Hashable, Sendable {
        /// The same in all pages of an offer, and in all offers of the same attempt to send: 16 random bytes.
        package var id: [UInt8]
        package var entries: [RawEntry]
        package var notes: [Note]
        /// Whether another page follows.
        package var more: Bool

        package init(id: [UInt8], entries: [RawEntry], notes: [Note], more: Bool) {
            self.id = id
            self.entries = entries
            self.notes = notes
            self.more = more
        }
    }

    /// A checked file or folder.
    package struct Entry: Hashable, Sendable {
        package enum Kind: Hashable, Sendable {
            case folder
            case file(size: Int64)
        }

        package let path: [EntryName]
        package let kind: Kind
        /// In milliseconds since 1970.
        package let modified: Int64

        package init(path: [EntryName], kind: Kind, modified: Int64) {
            (self.path, self.kind, self.modified) = (path, kind, modified)
        }

        /// The size of a file in bytes; `nil` for a folder.
        package var size: Int64? { if case .file(let size) = kind { size } else { nil } }
        package var isTop: Bool { path.count == 1 }
    }

    package let id: [UInt8]
    /// A folder stands before its content.
    package let entries: [Entry]
    package let notes: [Note]

    /// The sizes of all files together.
    package var bytes: Int64 { entries.reduce(0) { $0 + ($1.size ?? 0) } }
    package var fileCount: Int { entries.reduce(0) { $0 + ($1.size == nil ? 0 : 1) } }
    /// The files and folders that are not inside another one.
    package var tops: [Entry] { entries.filter(\.isTop) }

    /// Of the entries and notes. Each text and list follows its length, so two contents have different bytes.
    package var digest: Digest256 {
        var bytes: [UInt8] = []
        func put(_ number: Int64) { withUnsafeBytes(of: number.bigEndian) { bytes += $0 } }
        func put(_ text: String) {
            put(Int64(text.utf8.count))
            bytes += text.utf8
        }
        put(Int64(entries.count))
        for entry in entries {
            put(Int64(entry.path.count))
            for name in entry.path { put(name.text) }
            put(entry.size ?? -1)
            put(entry.modified)
        }
        for note in notes {
            put(note.kind.rawValue)
            put(note.content)
        }
        return Digest256(hashing: bytes)
    }

    /// The pages of an offer.
    /// - Throws: `tooLarge`.
    package static func pages(id: [UInt8], entries: [RawEntry], notes: [Note]) throws(ShareOfferError) -> [Page] {
        var pages: [Page] = []
        var (page, weight) = (Page(id: id, entries: [], notes: notes, more: true), 0)
        for entry in entries {
            if weight + entry.weight > ShareLimits.pageBytes {
                pages.append(page)
                (page, weight) = (Page(id: id, entries: [], notes: [], more: true), 0)
            }
            page.entries.append(entry)
            weight += entry.weight
        }
        page.more = false
        pages.append(page)
        let tops = entries.count { $0.path.count == 1 }
        guard pages.count <= ShareLimits.pages, notes.count <= ShareLimits.notes, tops <= ShareLimits.tops else { throw .tooLarge }
        return pages
    }
}

/// Why an offer is refused before anybody is asked about it.
package enum ShareOfferError: Error, Hashable, Sendable {
    /// It has too many entries, or too much text.
    case tooLarge
    /// It breaks the rules of the protocol.
    case invalid(String)
}

/// Collects the pages of an offer, and checks them.
package struct ShareOfferCollector: Sendable {
    private var id: [UInt8] = []
    private var entries: [ShareOffer.Entry] = []
    private var notes: [ShareOffer.Note] = []
    private var isFolder: [[EntryName]: Bool] = [:]
    private var pages = 0
    private var tops = 0
    private var bytes: Int64 = 0
    private let most: Int

    /// - Parameter most: The pages that the offer may have.
    package init(most: Int = ShareLimits.pages) { self.most = most }

    /// Adds a page.
    /// - Returns: The offer, with its last page.
    package mutating func add(_ page: ShareOffer.Page) throws(ShareOfferError) -> ShareOffer? {
        guard page.id.count == ShareLimits.idBytes, pages == 0 || page.id == id else { throw .invalid("its id is not that of an offer") }
        (id, pages) = (page.id, pages + 1)
        guard pages <= most, page.entries.reduce(0, { $0 + $1.weight }) <= ShareLimits.pageBytes else { throw .tooLarge }
        for entry in page.entries { try add(entry) }
        notes += page.notes
        guard notes.count <= ShareLimits.notes else { throw .tooLarge }
        guard notes.reduce(0, { $0 + $1.content.utf8.count + 8 }) <= ShareLimits.noteBytes else { throw .tooLarge }
        for note in page.notes where note.kind == .uri {
            guard (try? LaunchURI(note.content)) != nil else { throw .invalid("a link is not a URI") }
        }
        guard !page.more else { return nil }
        guard !entries.isEmpty || !notes.isEmpty else { throw .invalid("it is empty") }
        return ShareOffer(id: id, entries: entries, notes: notes)
    }

    private mutating func add(_ entry: ShareOffer.RawEntry) throws(ShareOfferError) {
        let path = entry.path.compactMap { EntryName($0) }
        guard path.count == entry.path.count, (1...ShareLimits.depth).contains(path.count), path.allSatisfy(\.isComposed) else {
            throw .invalid("a path is not allowed")
        }
        guard path.count == 1 || isFolder[path.dropLast()] == true else { throw .invalid("a path is in no folder of the offer") }
        if path.count == 1 {
            tops += 1
            guard tops <= ShareLimits.tops else { throw .tooLarge }
        }
        guard isFolder.updateValue(entry.size == nil, forKey: path) == nil else { throw .invalid("a path occurs twice") }
        if let size = entry.size {
            let (sum, overflow) = bytes.addingReportingOverflow(size)
            guard size >= 0, !overflow else { throw .invalid("a size is not possible") }
            bytes = sum
        }
        entries.append(.init(path: path, kind: entry.size.map { .file(size: $0) } ?? .folder, modified: entry.modified))
    }
}

extension Array<EntryName> {
    fileprivate func dropLast() -> [EntryName] { Array(self[..<index(before: endIndex)]) }
}
