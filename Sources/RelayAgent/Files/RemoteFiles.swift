// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// The folder that another device shares: reached by a device of this process, or by the running agent.
protocol RemoteFiles: Sendable {
    func entry(_ path: String) async throws -> RemoteEntry
    /// The next page of a listing; `nil` at its end.
    func next(_ listing: inout Listing) async throws -> RemoteFolder.Page?
    /// Runs a closure that receives content.
    func receiving(_ body: (any RemoteReceiving) async throws -> Void) async throws
}

/// Receives the content of files.
protocol RemoteReceiving: Sendable {
    /// - Parameters:
    ///   - have: What is here already. Files are counted from 0.
    ///   - taker: Takes the frames.
    /// - Returns: Why the other device did not send some files.
    func receive(
        _ files: [(path: String, entry: RemoteEntry)],
        have: [ShareMessages.Have],
        into taker: any BulkTaking
    ) async throws -> [Int: FileServiceMessages.Problem]
}

/// An attempt of the running agent broke off. Another one may go on.
struct Interruption: Error {
    let failure: AgentError
}

/// The folder by a connection to the app service `files`.
struct ServiceFiles: RemoteFiles {
    let service: BulkConnection
    private let folder: RemoteFolder

    init(_ service: BulkConnection) { (self.service, folder) = (service, RemoteFolder(connection: service.connection)) }

    func entry(_ path: String) async throws -> RemoteEntry { try await folder.entry(path) }

    func next(_ listing: inout Listing) async throws -> RemoteFolder.Page? { try await folder.next(&listing) }

    func receiving(_ body: (any RemoteReceiving) async throws -> Void) async throws {
        let stream = try await RemoteContent.stream(service)
        try await BulkReceiver.receiving(over: stream) { try await body(RemoteContent(service.connection, $0)) }
    }
}

extension LocalDevice {
    /// The app that shares a folder.
    func sharedFolder(_ text: String) async throws -> (RemoteSystem, RemoteSystemApp) {
        do {
            return try await app(offering: FileServiceMessages.serviceName, on: text)
        } catch let error as AgentError where error.code == "appServiceUnavailable" {
            throw AgentError(error.code, "'\(text)' shares no folder; set 'files' in agent.yaml and run `relay agent` there", error.status)
        }
    }

    /// Opens a connection to the app that shares a folder.
    func open(sharedFolder app: RemoteSystemApp) async throws(AppServiceError) -> BulkConnection {
        let service = AppServiceInfo(name: FileServiceMessages.serviceName, appID: app.appID)
        return try await reaching(app) { () throws(AppServiceError) in
            try await platform.openBulkService(service, on: RemoteSystemConnectionRequest(app))
        }
    }
}
