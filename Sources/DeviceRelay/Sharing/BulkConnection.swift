// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A connection to an app service that expects bulk streams.
package struct BulkConnection: Sendable {
    package let connection: AppServiceConnection
    private let provider: any DeviceProvider
    private let target: ResolvedTarget

    /// Opens a connection to the service that a closure finds.
    init(
        to request: RemoteSystemConnectionRequest,
        on platform: ConnectedDevicesPlatform,
        _ find: (DeviceDirectory) throws(TargetError) -> (info: AppServiceInfo, target: ResolvedTarget)
    ) async throws(AppServiceError) {
        let found: (info: AppServiceInfo, target: ResolvedTarget)
        do throws(CommandFailure) {
            (provider, found) = try await platform.resolve(request, within: .seconds(30), find)
        } catch {
            throw AppServiceError(error)
        }
        target = found.target
        connection = try await provider.open(found.info, on: target, from: nil, timeout: .seconds(30))
    }

    /// Opens the stream that the service expects.
    /// - Throws: `invalidMessage` if it is no token; `AppServiceError` of a connection that fails.
    package func openStream(_ token: [UInt8]) async throws(AppServiceError) -> BulkStream {
        guard let token = BulkToken(token) else { throw AppServiceError(.invalidMessage, message: "a token is not valid") }
        return try await provider.openBulk(token, on: target, timeout: .seconds(30))
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
