// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage

/// Downloads files of another device into local folders. It replaces nothing, except files if the user asked for it.
struct Download: Sendable {
    /// A file whose download is complete.
    struct Finished: Sendable {
        var path: String
        var place: String
        var size: Int64
        /// The bytes received in this run; fewer than `size` if a part was already here.
        var received: Int64
    }

    typealias Outcome = (path: String, result: Result<Finished, AgentError>)

    let content: any RemoteReceiving
    /// Identifies the shared folder: a device and an app.
    let source: [String]
    let replaces: Bool
    let progress: TransferProgress
    /// The room for what is downloaded at the same time. The user asked for it, so the disk may become full.
    let room = ShareRoom(reserve: 0)

    /// Whether a file of this size and time already exists.
    /// - Throws: if the destination exists and must not be replaced.
    static func isHere(_ file: RemoteFile, replaces: Bool) throws(AgentError) -> Bool {
        let there: FileFacts?
        do { there = try file.place.folder.facts(of: file.place.name) } catch { throw AgentError(error, file.place.shown) }
        guard let there else { return false }
        guard there.isFile else { throw isNoFile(file.place) }
        if there.size == file.entry.size, abs(there.modified.timeIntervalSince(file.entry.modified)) < 0.001 { return true }
        guard replaces else { throw exists(file.place) }
        return false
    }

    static func finished(_ file: RemoteFile, received: Int64) -> Finished {
        Finished(path: file.path, place: file.place.shown, size: file.entry.size, received: received)
    }

    /// The place where files arrive.
    /// - Parameters:
    ///   - name: The name of the file; `nil` for all files of a folder.
    ///   - path: The path of that file or folder on the other device.
    func staging(_ name: EntryName?, of path: String, in folder: OpenFile, _ shown: String) throws(AgentError) -> ShareStaging {
        ShareStaging.removeAbandoned(in: folder)
        do throws(SystemError) {
            return try ShareStaging(name, from: source + [path], in: folder)
        } catch {
            guard error.number == EWOULDBLOCK else { throw AgentError(error, shown) }
            throw AgentError("fileBusy", "another process is fetching '\(shown)'", .failed)
        }
    }

    /// Receives files, and gives them their names.
    /// - Throws: What ends the transfer. What concerns one file only is its result.
    func receive(_ batch: FileBatch, in staging: ShareStaging) async throws -> [Outcome] {
        let sink = ShareSink(batch.entries, in: staging, replaces: replaces, room: room)
        let ended: (problems: [Int: FileServiceMessages.Problem], outcome: ShareSink.Outcome, kept: [Int: Int64])
        do {
            let have = try await sink.prepare()
            let start = have.reduce(0) { $0 + $1.length }
            let shown = ShownContent(sink, on: progress, batch.title, size: batch.bytes, at: start)
            ended.problems = try await content.receive(batch.files.map { ($0.path, $0.entry) }, have: have, into: shown)
            (ended.outcome, ended.kept) = (try await sink.finish(), await sink.kept)
            await sink.close()
        } catch {
            await sink.close()
            throw (error as? ShareFailure).map { Self.explained($0, batch) } ?? error
        }
        let failures = Dictionary(ended.outcome.failures.map { ($0.entry, $0) }, uniquingKeysWith: { first, _ in first })
        return batch.files.enumerated().map { number, file in
            guard let failure = failures[number] else {
                return (file.path, .success(Self.finished(file, received: file.entry.size - (ended.kept[number] ?? 0))))
            }
            return (file.path, .failure(Self.explained(failure, ended.problems[number], file)))
        }
    }

    /// Downloads one file.
    func file(_ file: RemoteFile) async throws -> Finished {
        var batch = FileBatch()
        _ = batch.add(file)
        let staging = try staging(file.place.name, of: file.path, in: file.place.folder, file.place.shown)
        guard let outcome = try await receive(batch, in: staging).first else { throw Self.invalidContent }
        return try outcome.result.get()
    }

    // MARK: Errors

    private static func explained(_ failure: ShareFailure, _ batch: FileBatch) -> AgentError {
        let shown = batch.files.first?.place.shown ?? ""
        return switch failure.problem {
        case .diskFull: AgentError(SystemError(ENOSPC), shown)
        case .invalid: invalidContent
        default: AgentError("fileNotWritable", "'\(shown)' cannot be written", .failed)
        }
    }

    /// The other device breaks the rules.
    static let invalidContent = AgentError("contentInvalid", "the other device sends what was not asked for, or not all of it", .failed)

    private static func explained(
        _ failure: ShareSink.Failure,
        _ problem: FileServiceMessages.Problem?,
        _ file: RemoteFile
    ) -> AgentError {
        switch failure.problem {
        case .abandoned: RemoteFolder.error(problem, file.path)
        case .damaged: damaged(file.path)
        case .nameNotPossible, .notWritable:
            failure.error?.number == EEXIST ? exists(file.place) : AgentError(failure.error ?? SystemError(EACCES), file.place.shown)
        }
    }

    static func damaged(_ path: String) -> AgentError {
        AgentError("fileDamaged", "'\(path)' arrived damaged; fetch it again", .failed)
    }

    private static func exists(_ place: Destination) -> AgentError {
        AgentError("fileExists", "'\(place.shown)' exists already; replace it with --force, or choose another name with -o", .failed)
    }

    private static func isNoFile(_ place: Destination) -> AgentError {
        AgentError("fileExists", "'\(place.shown)' exists already and is not a file; choose another name with -o", .failed)
    }
}
