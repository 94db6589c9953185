// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// The connection of an agent that polls. It is there while requests of the API need it, and for a while after, so that what was stored is
/// also sent.
actor RequestedConnection {
    /// How long it stays.
    private static let linger = Duration.seconds(30)

    /// How long a request waits until the connection begins.
    private static let patience = Duration.seconds(5)

    private let platform: ConnectedDevicesPlatform
    private let account: ConnectedDevicesAccount
    private var users = 0
    private var ending: Task<Void, Never>?

    init(_ platform: ConnectedDevicesPlatform, _ account: ConnectedDevicesAccount) {
        (self.platform, self.account) = (platform, account)
    }

    func use<Result: Sendable>(_ body: @Sendable () async throws -> Result) async throws -> Result {
        users += 1
        ending?.cancel()
        await begin()
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

    /// Resumes the platform, and waits until it has begun to connect: before that, commands would fail because it is suspended.
    private func begin() async {
        await platform.resume()
        let (platform, account) = (platform, account)
        _ = try? await within(Self.patience) { () -> Void? in
            for await state in platform.connectionStates(for: account) {
                if state.phase == .connected { return () }
                if let problem = state.problem, problem.code != .suspended { return () }
            }
            return nil
        }
    }
}
