// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage

/// Downloads files and folders of another device into local folders. It replaces nothing, except files if the user asked for it.
struct Download {
    /// No user creates deeper folders.
    private static let maximumDepth = 64

    /// A file whose download is complete.
    struct Finished {
        var path: String
        var place: String
        var size: Int64
        /// The bytes received in this run; fewer than `size` if a part was already here.
        var received: Int64
    }

    let remote: RemoteFolder
    /// The device that shares the folder.
    let device: String
    let app: String
    let replaces: Bool
    let progress: TransferProgress
    let report: (Finished) async throws -> Void
    /// Takes what a transfer of a folder leaves out.
    let leaveOut: (LeftOut) async throws -> Void

    // MARK: A file

    func file(_ path: String, _ entry: RemoteEntry, to place: Destination) async throws {
        var finished = Finished(path: path, place: place.shown, size: entry.size, received: 0)
        if try isHere(entry, place) { return try await report(finished) }
        let part: PartFile
        do throws(PartFile.Failure) {
            part = try PartFile(place.name, in: place.folder, of: source(path, entry))
        } catch {
            throw Self.explained(error, place)
        }
        let transfer = FileTransfer(remote: remote, path: path, entry: entry, progress: progress)
        do {
            try await transfer.run(from: part.start, named: place.name.text) { bytes, offset in
                do throws(PartFile.Failure) { try part.write(bytes, at: offset) } catch { throw Self.explained(error, place) }
            }
        } catch {
            part.removeIfEmpty()
            throw error
        }
        do throws(PartFile.Failure) {
            try part.publish(modified: entry.modified, replaces: replaces)
        } catch {
            throw Self.explained(error, place)
        }
        finished.received = entry.size - part.start
        try await report(finished)
    }

    private func source(_ path: String, _ entry: RemoteEntry) -> PartFile.Source {
        .init(device: device, app: app, path: path, size: entry.size, etag: entry.etag)
    }

    /// Whether a file of this size and time already exists.
    /// - Throws: if the destination exists and must not be replaced.
    private func isHere(_ entry: RemoteEntry, _ place: Destination) throws -> Bool {
        let there: FileFacts?
        do { there = try place.folder.facts(of: place.name) } catch { throw AgentError(error, place.shown) }
        guard let there else { return false }
        guard there.isFile else { throw Self.isNoFile(place) }
        if there.size == entry.size, abs(there.modified.timeIntervalSince(entry.modified)) < 0.001 { return true }
        guard replaces else { throw Self.exists(place) }
        return false
    }

    private static func exists(_ place: Destination) -> AgentError {
        AgentError("fileExists", "'\(place.shown)' exists already; replace it with --force, or choose another name with -o", .failed)
    }

    private static func isNoFile(_ place: Destination) -> AgentError {
        AgentError("fileExists", "'\(place.shown)' exists already and is not a file; choose another name with -o", .failed)
    }

    private static func explained(_ failure: PartFile.Failure, _ place: Destination) -> AgentError {
        switch failure {
        case .busy: AgentError("fileBusy", "another process is fetching '\(place.shown)'", .failed)
        case .occupied(let name):
            AgentError("fileExists", "'\(name)' beside '\(place.shown)' does not belong to a transfer; move it away", .failed)
        case .exists: exists(place)
        case .system(let error): AgentError(error, place.shown)
        }
    }

    // MARK: A folder

    /// - Parameters:
    ///   - folder: the destination of the entries.
    ///   - shown: the path to show to the user.
    func folder(_ path: String, to folder: OpenFile, _ shown: String) async throws {
        var entries = 0
        try await self.folder(path, to: folder, shown, depth: 0, &entries)
    }

    /// Handles each page of the listing before it requests the next one. What one file or folder prevents is reported, and the rest goes on.
    private func folder(_ path: String, to folder: OpenFile, _ shown: String, depth: Int, _ entries: inout Int) async throws {
        guard depth < Self.maximumDepth else { throw AgentError("tooDeep", "'\(path)' is nested too deep", .failed) }
        var listing = Listing(path, .pages)
        while let page = try await remote.next(&listing) {
            entries += page.entries.count
            guard entries <= listing.use.maximumEntries else {
                throw AgentError("listingTooLarge", "there are more than \(listing.use.maximumEntries) files and folders", .failed)
            }
            for omitted in page.leftOut { try await leaveOut(omitted) }
            for (name, entry) in page.entries {
                let inner = path.isEmpty ? name.text : "\(path)/\(name.text)"
                let place = Destination(name, in: folder, shown)
                do {
                    switch entry.kind {
                    case .file: try await file(inner, entry, to: place)
                    case .folder: try await self.folder(inner, to: try Self.makeFolder(place), place.shown, depth: depth + 1, &entries)
                    }
                } catch let error as AgentError where LeftOut.isPossible(error) {
                    try await leaveOut(LeftOut(inner, error))
                }
            }
        }
    }

    /// Opens the folder of a name, and creates it if it does not exist. A link to a folder is an error.
    static func makeFolder(_ place: Destination) throws -> OpenFile {
        do throws(SystemError) {
            return try place.folder.makeFolder(place.name)
        } catch {
            guard [ELOOP, ENOTDIR].contains(error.number) else { throw AgentError(error, place.shown) }
            throw AgentError("fileExists", "'\(place.shown)' exists already and is not a folder", .failed)
        }
    }
}
