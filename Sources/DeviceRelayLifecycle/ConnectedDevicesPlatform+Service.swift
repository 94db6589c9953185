// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import DeviceRelay
public import ServiceLifecycle

/// A platform can be one of the services of a `ServiceGroup`.
extension ConnectedDevicesPlatform: Service {
    /// Starts the platform, runs until the group shuts down gracefully or the task is cancelled, and then shuts the platform down.
    /// - Throws: `PlatformError`, if the platform does not start.
    public func run() async throws {
        try await start()
        // Throws if the task is cancelled, which ends the service in the same way.
        try? await gracefulShutdown()
        await shutdown()
    }
}
