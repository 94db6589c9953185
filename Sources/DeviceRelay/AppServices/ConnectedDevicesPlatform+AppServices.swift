// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol
import RelayTracing

extension ConnectedDevicesPlatform {
    /// Opens a connection to an app service of another device, end to end encrypted. It lasts until either side closes it.
    /// - Parameters:
    ///   - service: The service, and the app that offers it.
    ///   - request: The device or the app that has the service.
    ///   - appID: The id of the calling app, which is sent to the service. `nil` stands for the app of this platform, if it has exactly
    ///     one.
    ///   - timeout: The time until the service has accepted the connection; default 30 s. The call waits for a device that is offline, within this time.
    ///     If the relay does not respond at all, the call may take a few seconds longer.
    /// - Throws: `AppServiceError`: `appNotInstalled`, `appUnavailable`, `appServiceUnavailable`, `remoteSystemUnavailable`,
    ///   `remoteSystemNotSupportedByApp`, `notAuthorized`, `authenticationError`, `networkNotAvailable`, `webServiceUnavailable`,
    ///   `resourceLimitsExceeded`, `wakeSuppressed`, `timedOut`, `cancelled`.
    public func openAppService(
        _ service: AppServiceInfo,
        on request: RemoteSystemConnectionRequest,
        from appID: String? = nil,
        timeout: Duration = .seconds(30)
    ) async throws(AppServiceError) -> AppServiceConnection {
        try await Trace.span("open app service", .client) { () async throws(AppServiceError) in
            let end = ContinuousClock.now + timeout
            let found: (provider: any DeviceProvider, target: ResolvedTarget)
            do throws(CommandFailure) {
                found = try await resolve(request, within: timeout) { (directory) throws(TargetError) in
                    try directory.resolve(service, on: request)
                }
            } catch {
                throw AppServiceError(error)
            }
            return try await found.provider.open(service, on: found.target, from: appID, timeout: ContinuousClock.now.duration(to: end))
        }
    }

    /// Opens a connection to an app service, runs a closure with it, and closes it when the closure returns or throws. The parameters are
    /// those of `openAppService`.
    /// - Throws: The errors of `openAppService` and of the closure.
    public func withAppService<Result>(
        _ service: AppServiceInfo,
        on request: RemoteSystemConnectionRequest,
        from appID: String? = nil,
        timeout: Duration = .seconds(30),
        _ body: (AppServiceConnection) async throws -> Result
    ) async throws -> Result {
        let connection = try await openAppService(service, on: request, from: appID, timeout: timeout)
        defer { connection.close() }
        return try await body(connection)
    }
}
