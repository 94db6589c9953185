// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

extension ConnectedDevicesPlatform {
    /// Opens a connection to an app service of another device, end to end encrypted. It lasts until either side closes it.
    /// - Parameters:
    ///   - service: The service, and the app that offers it.
    ///   - request: The device or app it is on.
    ///   - appID: The app that calls, as the service is told; `nil` stands for the app of this platform, if it has exactly one.
    ///   - timeout: Until the service has taken the connection. A device that is not there may come within it. A relay that says nothing
    ///     at all is waited for a few seconds longer.
    /// - Throws: `AppServiceError`, whose code says what is in the way.
    public func openAppService(
        _ service: AppServiceInfo,
        on request: RemoteSystemConnectionRequest,
        from appID: String? = nil,
        timeout: Duration = .seconds(30)
    ) async throws(AppServiceError) -> AppServiceConnection {
        let end = ContinuousClock.now + timeout
        let found: (endpoint: LocalEndpoint, target: ResolvedTarget)
        do throws(CommandFailure) {
            found = try await resolve(request, within: timeout) { (directory) throws(TargetError) in
                try directory.resolve(service, on: request)
            }
        } catch {
            throw AppServiceError(error)
        }
        return try await found.endpoint.open(service, on: found.target, from: appID, timeout: ContinuousClock.now.duration(to: end))
    }

    /// Opens a connection to an app service, runs a closure with it, and closes it, however the closure ends.
    nonisolated(nonsending) public func withAppService<Result>(
        _ service: AppServiceInfo,
        on request: RemoteSystemConnectionRequest,
        from appID: String? = nil,
        timeout: Duration = .seconds(30),
        _ body: nonisolated(nonsending) (AppServiceConnection) async throws -> Result
    ) async throws -> Result {
        let connection = try await openAppService(service, on: request, from: appID, timeout: timeout)
        defer { connection.close() }
        return try await body(connection)
    }
}
