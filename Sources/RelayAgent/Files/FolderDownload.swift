// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage

/// Downloads a folder with all its content. While files arrive, it goes on to list. What one file or folder prevents is reported, and the rest
/// goes on.
struct FolderDownload {
    private typealias Arriving = ThrowingTaskGroup<[Download.Outcome], any Error>

    /// No user creates deeper folders.
    private static let maximumDepth = 64
    /// The requests for files whose content has not arrived.
    private static let maximumBatches = 3

    let remote: any RemoteFiles
    let download: Download
    let report: (Download.Finished) async throws -> Void
    let leaveOut: (LeftOut) async throws -> Void
    private var entries = 0
    private var batches = 0

    init(
        _ remote: any RemoteFiles,
        _ download: Download,
        report: @escaping (Download.Finished) async throws -> Void,
        leaveOut: @escaping (LeftOut) async throws -> Void
    ) {
        (self.remote, self.download, self.report, self.leaveOut) = (remote, download, report, leaveOut)
    }

    /// - Parameters:
    ///   - path: the folder on the other device.
    ///   - folder: the destination of the entries.
    ///   - shown: the path to show to the user.
    mutating func run(_ path: String, to folder: OpenFile, _ shown: String) async throws {
        try await withThrowingTaskGroup(of: [Download.Outcome].self) { group in
            try await run(path, to: folder, shown, depth: 0, &group)
            while batches > 0 { try await take(&group) }
        }
    }

    /// Handles each page of the listing before it requests the next one.
    private mutating func run(_ path: String, to folder: OpenFile, _ shown: String, depth: Int, _ group: inout Arriving) async throws {
        guard depth < Self.maximumDepth else { throw AgentError("tooDeep", "'\(path)' is nested too deep", .failed) }
        var (listing, staging) = (Listing(path, .pages), ShareStaging?.none)
        while let page = try await remote.next(&listing) {
            entries += page.entries.count
            guard entries <= listing.use.maximumEntries else {
                throw AgentError("listingTooLarge", "there are more than \(listing.use.maximumEntries) files and folders", .failed)
            }
            for omitted in page.leftOut { try await leaveOut(omitted) }
            var batch = FileBatch()
            for (name, entry) in page.entries {
                let inner = path.isEmpty ? name.text : "\(path)/\(name.text)"
                let place = Destination(name, in: folder, shown)
                do {
                    switch entry.kind {
                    case .file:
                        let file = RemoteFile(path: inner, entry: entry, place: place)
                        if try Download.isHere(file, replaces: download.replaces) {
                            try await report(Download.finished(file, received: 0))
                        } else if !batch.add(file) {
                            try await receive(batch, path, &staging, &group)
                            batch = FileBatch()
                            _ = batch.add(file)
                        }
                    case .folder: try await run(inner, to: try Self.makeFolder(place), place.shown, depth: depth + 1, &group)
                    }
                } catch let error as AgentError where LeftOut.isPossible(error) {
                    try await leaveOut(LeftOut(inner, error))
                }
            }
            try await receive(batch, path, &staging, &group)
        }
    }

    /// Begins to receive files of a folder. All of them use one place there.
    private mutating func receive(_ batch: FileBatch, _ path: String, _ staging: inout ShareStaging?, _ group: inout Arriving) async throws
    {
        guard let first = batch.files.first?.place else { return }
        let place: ShareStaging
        do throws(AgentError) {
            place = if let staging { staging } else { try download.staging(nil, of: path, in: first.folder, first.shown) }
        } catch {
            guard LeftOut.isPossible(error) else { throw error }
            for file in batch.files { try await leaveOut(LeftOut(file.path, error)) }
            return
        }
        staging = place
        if batches == Self.maximumBatches { try await take(&group) }
        batches += 1
        group.addTask { [download] in
            do {
                return try await download.receive(batch, in: place)
            } catch let error as AgentError where LeftOut.isPossible(error) {
                return batch.files.map { ($0.path, .failure(error)) }
            }
        }
    }

    /// Waits for the end of some files, and reports it.
    private mutating func take(_ group: inout Arriving) async throws {
        guard let outcomes = try await group.next() else { return }
        batches -= 1
        for (path, result) in outcomes {
            switch result {
            case .success(let finished): try await report(finished)
            case .failure(let error):
                guard LeftOut.isPossible(error) else { throw error }
                try await leaveOut(LeftOut(path, error))
            }
        }
    }

    /// Opens the folder of a name, and creates it if it does not exist. A link to a folder is an error.
    static func makeFolder(_ place: Destination) throws(AgentError) -> OpenFile {
        do throws(SystemError) {
            return try place.folder.makeFolder(place.name)
        } catch {
            guard [ELOOP, ENOTDIR].contains(error.number) else { throw AgentError(error, place.shown) }
            throw AgentError("fileExists", "'\(place.shown)' exists already and is not a folder", .failed)
        }
    }
}
