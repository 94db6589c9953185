// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// The folder that another device shares by its app service `files`.
struct RemoteFolder: Sendable {
    /// The time limit of one response, enough for a slow connection.
    private static let patience = Duration.seconds(120)

    let connection: AppServiceConnection

    func entry(_ path: String) async throws -> RemoteEntry {
        let answer = try await connection.call(FileServiceMessages.Stat(path: path), timeout: Self.patience)
        guard let entry = answer.entry else { throw Self.error(answer.problem, path) }
        return try RemoteEntry(entry, path)
    }

    /// A page of a listing.
    struct Page {
        var entries: [(name: EntryName, entry: RemoteEntry)]
        var leftOut: [LeftOut]
    }

    /// The next page of a listing; `nil` at its end.
    func next(_ listing: inout Listing) async throws -> Page? {
        guard !listing.isAtEnd else { return nil }
        let call = FileServiceMessages.List(path: listing.path, after: listing.after?.text)
        let start = ContinuousClock.now
        let answer = try await connection.call(call, timeout: min(Self.patience, try listing.timeLeft()))
        guard let entries = answer.entries else { throw Self.error(answer.problem, listing.path) }
        let page = try listing.add(entries, more: answer.more ?? false, waited: .now - start)
        return Page(entries: page, leftOut: try listing.add(omitted: answer.omitted ?? [], more: answer.omittedMore ?? 0))
    }

    /// The problem that an error says.
    static func problem(_ code: String) -> FileServiceMessages.Problem? {
        switch code {
        case "fileNotFound": .notFound
        case "fileNotAllowed": .notAllowed
        case "notAFile": .notAFile
        case "notAFolder": .notAFolder
        case "fileChanged": .changed
        case "fileNotReadable": .failed
        default: nil
        }
    }

    /// Why a file or folder cannot be had. Without a problem the other device failed to read it.
    static func error(_ problem: FileServiceMessages.Problem?, _ path: String) -> AgentError {
        let name = path.isEmpty ? "the folder" : "'\(path)'"
        return switch problem {
        case .notFound: AgentError("fileNotFound", "the other device shares no file or folder \(name)", .notFound)
        case .notAllowed:
            AgentError(
                "fileNotAllowed",
                "\(name) cannot be fetched: it is a link or leads through one, or its name is not allowed",
                .declined
            )
        case .notAFile: AgentError("notAFile", "\(name) is a folder; fetch it with -r", .usage)
        case .notAFolder: AgentError("notAFolder", "\(name) is not a folder", .usage)
        case .changed: AgentError("fileChanged", "\(name) changed during the transfer; fetch it again", .failed)
        case .failed, nil: AgentError("fileNotReadable", "the other device cannot read \(name)", .failed)
        }
    }
}
