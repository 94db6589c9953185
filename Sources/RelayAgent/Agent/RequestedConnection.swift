// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// The connection of an agent that polls. It is there while requests of the API need it, and for a while after, so that what was stored is
/// also sent.
actor RequestedConnection {
    /// How long it stays.
    private static let linger = Duration.seconds(30)

    private let platform: ConnectedDevicesPlatform
    private var users = 0
    private var ending: Task<Void, Never>?

    init(_ platform: ConnectedDevicesPlatform) { self.platform = platform }

    func use<Result: Sendable>(_ body: @Sendable () async throws -> Result) async throws -> Result {
        users += 1
        ending?.cancel()
        if users == 1 { await platform.resume() }
        defer {
            users -= 1
            if users == 0 {
                ending = Task {  // Owner: this actor
                    try? await Task.sleep(for: Self.linger)
                    if !Task.isCancelled, users == 0 { await platform.suspend() }
                }
            }
        }
        return try await body()
    }
}
