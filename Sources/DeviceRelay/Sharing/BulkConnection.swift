// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A connection to an app service that expects bulk streams.
package struct BulkConnection: Sendable {
    package let connection: AppServiceConnection
    private let open: @Sendable (BulkToken) async throws(AppServiceError) -> BulkStream
    private let end: @Sendable () async -> Void

    /// - Parameters:
    ///   - open: Opens a bulk stream.
    ///   - end: Ends what only this connection has used, after it is closed.
    init(
        _ connection: AppServiceConnection,
        open: @escaping @Sendable (BulkToken) async throws(AppServiceError) -> BulkStream,
        end: @escaping @Sendable () async -> Void
    ) {
        (self.connection, self.open, self.end) = (connection, open, end)
    }

    /// Opens a connection to the service that a closure finds.
    init(
        to request: RemoteSystemConnectionRequest,
        on platform: ConnectedDevicesPlatform,
        _ find: (DeviceDirectory) throws(TargetError) -> (info: AppServiceInfo, target: ResolvedTarget)
    ) async throws(AppServiceError) {
        let (provider, found): (any DeviceProvider, (info: AppServiceInfo, target: ResolvedTarget))
        do throws(CommandFailure) {
            (provider, found) = try await platform.resolve(request, within: .seconds(30), find)
        } catch {
            throw AppServiceError(error)
        }
        let connection = try await provider.open(found.info, on: found.target, from: nil, timeout: .seconds(30))
        self.init(connection) { (token) throws(AppServiceError) in
            try await provider.openBulk(token, on: found.target, timeout: .seconds(30))
        } end: {
        }
    }

    /// Opens the stream that the service expects.
    /// - Throws: `invalidMessage` if it is no token; `AppServiceError` of a connection that fails.
    package func openStream(_ token: [UInt8]) async throws(AppServiceError) -> BulkStream {
        guard let token = BulkToken(token) else { throw AppServiceError(.invalidMessage, message: "a token is not valid") }
        return try await open(token)
    }

    /// Closes the connection. Its streams stay.
    func close() async {
        connection.close()
        await end()
    }
}

extension ConnectedDevicesPlatform {
    /// Opens a connection to an app service that expects bulk streams, as `openAppService` does.
    package func openBulkService(_ service: AppServiceInfo, on request: RemoteSystemConnectionRequest) async throws(AppServiceError)
        -> BulkConnection
    {
        try await BulkConnection(to: request, on: self) { (directory) throws(TargetError) in
            (service, try directory.resolve(service, on: request))
        }
    }
}
