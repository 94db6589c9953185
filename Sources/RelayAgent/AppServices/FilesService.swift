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
        AppService(FileServiceMessages.serviceName) { connection, caller in
            if let devices, !devices.contains(caller.systemID) {
                throw AppServiceError(.notAuthorized, message: "the folder is not shared with this device")
            }
            try await connection.respond { request in try await answer(request.message) }
        }
    }

    private func answer(_ message: ValueSet) async throws -> ValueSet {
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
        case FileServiceMessages.Read.type:
            let call = try Self.decode(FileServiceMessages.Read.self, message)
            guard call.offset >= 0, (0...FileServiceMessages.maximumReadBytes).contains(call.length),
                !call.offset.addingReportingOverflow(Int64(call.length)).overflow
            else {
                throw AppServiceError(
                    .invalidMessage,
                    message: "'offset' must not be negative, and 'length' must be at most \(FileServiceMessages.maximumReadBytes)"
                )
            }
            return try await answer {
                try folder.read(call.path, from: call.offset, count: call.length, etag: call.etag)
            } failure: {
                FileServiceMessages.Read.Response(problem: $0)
            }
        default: throw AppServiceError(.invalidMessage, message: "'Type' must be stat, list or read")
        }
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
