// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import RelayProtocol
package import RelayStorage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The place of files and folders while they arrive: `.NAME-HASH.relay-part` in the destination folder, accessible to this user only. The
/// hash names their source, so that only the next attempt with the same source goes on with it. It is locked while it is used. What is
/// complete moves to its own name. A place in which nothing has arrived does not stay.
package final class ShareStaging: Sendable {
    /// Files of equal names in the destination folder.
    private static let numbers = 999

    package let destination: OpenFile
    private let place: EntryName
    private let folder: OpenFile
    private let lock: OpenFile.Lock

    /// How long the place of an interrupted transfer is kept, in seconds: 14 days.
    private static let keptSeconds: TimeInterval = 14 * 86_400

    /// Removes places that nobody has continued for long.
    package static func removeAbandoned(in destination: OpenFile, now: Date = .now) {
        for bytes in (try? destination.names()) ?? [] {
            guard let text = String(validating: bytes, as: UTF8.self), let name = EntryName(local: text), name.isPart,
                let folder = try? destination.open(name, O_RDONLY | O_DIRECTORY), let facts = try? folder.facts(), facts.isOwn,
                facts.permissions == 0o700, facts.modified.timeIntervalSince(now) < -keptSeconds, let lock = try? folder.lock(),
                let there = try? destination.facts(of: name), there.isSame(as: facts)
            else { continue }
            withExtendedLifetime(lock) { try? destination.removeAll(name) }
        }
    }

    /// Takes the place of an interrupted transfer, or a new one.
    /// - Parameters:
    ///   - name: What arrives; `nil` for files of several names.
    ///   - source: Identifies where the content comes from.
    ///   - most: The transfers of this name and source that may run at once, each in a place of its own. Default: 1.
    /// - Throws: `EWOULDBLOCK` if so many run.
    package init(_ name: EntryName?, from source: [String], in destination: OpenFile, most: Int = 1) throws(SystemError) {
        for number in 0..<most {
            let place = Self.place(name, source, number)
            let folder: OpenFile
            do throws(SystemError) {
                folder = try destination.makeNewFolder(place)
            } catch {
                guard error.number == EEXIST else { throw error }
                guard let found = try? destination.open(place, O_RDONLY | O_DIRECTORY) else { continue }
                folder = found
            }
            // In a folder that others can write, it may be theirs.
            guard let made = try? folder.facts(), made.isOwn, made.permissions == 0o700 else { continue }
            guard let lock = try folder.lock() else { continue }
            // The transfer that had it may have just ended.
            guard let there = try destination.facts(of: place), let facts = try? folder.facts(), there.isSame(as: facts) else { continue }
            // Its time says when it was last used.
            folder.setModified(.now)
            (self.destination, self.place, self.folder, self.lock) = (destination, place, folder, lock)
            return
        }
        throw SystemError(EWOULDBLOCK)
    }

    deinit {
        // Once it is removed, the name may be that of another transfer.
        if (try? folder.facts())?.isRemoved == false { destination.removeEmptyFolder(place) }
    }

    private static func place(_ name: EntryName?, _ source: [String], _ number: Int) -> EntryName {
        let text = (source + [name?.text ?? "", String(number)]).map { "\($0.utf8.count):\($0)" }.joined()
        return EntryName.part(of: name, from: Digest256(hashing: Array(text.utf8)).label)
    }

    /// Opens a folder of the transfer.
    func folder(_ path: some Sequence<EntryName>, creates: Bool) throws(SystemError) -> OpenFile {
        var folder = folder
        for name in path {
            folder = creates ? try folder.makeFolder(name) : try folder.open(name, O_RDONLY | O_DIRECTORY)
        }
        return folder
    }

    /// Removes what is here and not in an offer, and what is of another kind there.
    func prune(keeping kinds: [[EntryName]: ShareOffer.Entry.Kind]) throws(SystemError) {
        try prune(folder, [], kinds)
    }

    private func prune(_ folder: OpenFile, _ path: [EntryName], _ kinds: [[EntryName]: ShareOffer.Entry.Kind]) throws(SystemError) {
        for bytes in try folder.names() {
            guard let text = String(validating: bytes, as: UTF8.self), let name = EntryName(local: text),
                let facts = try folder.facts(of: name)
            else { continue }
            switch kinds[path + [name]] {
            case .file where facts.isFile && facts.isUnshared: break
            case .folder where facts.isFolder:
                try prune(try folder.open(name, O_RDONLY | O_DIRECTORY), path + [name], kinds)
            default: try folder.removeAll(name)
            }
        }
    }

    /// Moves the complete file or folder of a name to that name in the destination, or to one with a number.
    /// - Returns: The name.
    func publish(_ name: EntryName, isFolder: Bool) throws(SystemError) -> EntryName {
        for number in 1...Self.numbers {
            guard let free = number == 1 ? name : name.numbered(number) else { throw SystemError(ENAMETOOLONG) }
            do throws(SystemError) {
                try folder.move(name, to: free, in: destination, isFolder: isFolder)
            } catch {
                if error.number == EEXIST { continue }
                throw error
            }
            return free
        }
        throw SystemError(EEXIST)
    }

    /// Moves the complete file of a name to exactly that name in the destination.
    /// - Parameter replaces: Whether it replaces a file, whose permissions it keeps. Other kinds are never replaced.
    /// - Throws: `EEXIST` if it must not replace what is there.
    func publish(_ name: EntryName, replaces: Bool) throws(SystemError) {
        guard replaces, let there = try destination.facts(of: name) else {
            return try folder.move(name, to: name, in: destination, isFolder: false)
        }
        guard there.isFile else { throw SystemError(EEXIST) }
        try folder.open(name, O_RDONLY).setPermissions(there.permissions)
        try folder.replace(name, in: destination)
    }

    /// Removes the place with all its content.
    func remove() { try? destination.removeAll(place) }
}
