// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Dispatch
import RelayProtocol

/// The app service `files`: read-only access to one folder of this machine for the user's other devices.
struct FilesService: Sendable {
    let folder: SharedFolder
    /// The devices that may read the folder; `nil` for all known devices.
    let devices: Set<RemoteSystem.ID>?

    var service: AppService {
        AppService(expectingStreams: FileServiceMessages.serviceName) { connection, caller, streams in
            if let devices, !devices.contains(caller.systemID) {
                throw AppServiceError(.notAuthorized, message: "the folder is not shared with this device")
            }
            let sender = BulkSender()
            try await streams.expecting(from: caller.endpoint) { stream in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { await sender.hold(stream) }
                    defer { group.cancelAll() }
                    try await connection.respond { try await answer($0.message, stream.token, sender) }
                }
            }
        }
    }

    private func answer(_ message: ValueSet, _ token: BulkToken, _ sender: BulkSender) async throws -> ValueSet {
        switch message["Type"]?.string {
        case FileServiceMessages.Stat.type:
            let call = try Self.decode(FileServiceMessages.Stat.self, message)
            return try await answer {
                FileServiceMessages.Stat.Response(entry: try folder.entry(call.path))
            } failure: {
                FileServiceMessages.Stat.Response(problem: $0)
            }
        case FileServiceMessages.List.type:
            let call = try Self.decode(FileServiceMessages.List.self, message)
            return try await answer {
                try folder.entries(call.path, after: call.after, most: FileServiceMessages.maximumEntries)
            } failure: {
                FileServiceMessages.List.Response(problem: $0)
            }
        case FileServiceMessages.Content.type:
            return try ValueSetEncoder().encode(FileServiceMessages.Content.Response(token: token.secret.exposed))
        case FileServiceMessages.Send.type:
            let call = try Self.decode(FileServiceMessages.Send.self, message)
            guard call.files.count <= FileServiceMessages.maximumEntries else {
                throw AppServiceError(.invalidMessage, message: "'files' must have at most \(FileServiceMessages.maximumEntries) files")
            }
            let failed = try await sender.send(call.files.map(source))
            return try ValueSetEncoder().encode(FileServiceMessages.Send.Response(failed: failed.isEmpty ? nil : failed.map(Self.failed)))
        default: throw AppServiceError(.invalidMessage, message: "'Type' must be stat, list, content or send")
        }
    }

    private func source(_ file: FileServiceMessages.Send.File) -> ShareSource.File {
        let have = file.digest.map { ShareMessages.Have(entry: file.entry, length: file.length ?? 0, digest: $0) }
        return ShareSource.File(entry: file.entry, have: have, offset: file.offset ?? 0) { try folder.open(file.path, etag: file.etag) }
    }

    private static func failed(_ entry: UInt32, _ error: any Error) -> FileServiceMessages.Failed {
        let problem = (error as? SharedFolder.Failure)?.problem ?? (error is ShareSource.Changed ? .changed : .failed)
        return .init(entry: entry, problem: problem)
    }

    private static func decode<Call: AppServiceCall>(_ call: Call.Type, _ message: ValueSet) throws -> Call {
        do {
            return try ValueSetDecoder().decode(call, from: message)
        } catch {
            throw AppServiceError(.invalidMessage, message: "the message is not a valid '\(Call.type)'")
        }
    }

    /// Runs a file operation on a separate thread: a slow disk must not block other work.
    private func answer<Response: Encodable & Sendable>(
        _ body: @escaping @Sendable () throws -> Response,
        failure: (SharedFolder.Problem) -> Response
    ) async throws -> ValueSet {
        let response: Result<Response, any Error> = await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: Result { try body() }) }
        }
        do {
            return try ValueSetEncoder().encode(try response.get())
        } catch let error as SharedFolder.Failure {
            return try ValueSetEncoder().encode(failure(error.problem))
        }
    }
}
