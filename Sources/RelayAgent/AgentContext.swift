// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// The environment of a command: its home directory and its console.
package struct AgentContext: Sendable {
    package let home: Home
    package let console: Console

    package init(home: Home, console: Console) {
        self.home = home
        self.console = console
    }

    /// Starts the platform of the home, runs a closure with it, and shuts it down.
    /// - Parameters:
    ///   - connects: Whether the command needs the relay.
    ///   - prepare: Runs before the platform starts.
    func withPlatform<Result>(
        _ membership: Membership,
        connects: Bool = true,
        prepare: (ConnectedDevicesPlatform) throws -> Void = { _ in },
        _ body: (LocalDevice) async throws -> Result
    ) async throws -> Result {
        let platform = try membership.platform(in: home)
        if !connects { await platform.suspend() }
        try prepare(platform)
        do {
            try await platform.start()
            let result = try await body(LocalDevice(platform: platform, membership: membership, console: console))
            await platform.shutdown()
            return result
        } catch {
            await platform.shutdown()
            throw error
        }
    }

    /// Runs a closure with the account that this device has joined.
    func withAccount<Result>(
        connects: Bool = true,
        prepare: (ConnectedDevicesPlatform) throws -> Void = { _ in },
        _ body: (LocalDevice) async throws -> Result
    ) async throws -> Result {
        try await withPlatform(try home.membership(), connects: connects, prepare: prepare) { local in
            guard local.isJoined else {
                throw AgentError("notSignedIn", "joining was not finished: run `relay join LINK` with a new link", .notSignedIn)
            }
            return try await body(local)
        }
    }
}

/// A started platform with its account.
struct LocalDevice: Sendable {
    let platform: ConnectedDevicesPlatform
    let membership: Membership
    let console: Console

    var account: ConnectedDevicesAccount { Membership.account }
    var isJoined: Bool { platform.accounts.all.contains(account) }

    /// The current connection state; `nil` if the account is gone.
    func connectionState() async -> ConnectionState? {
        var states = platform.connectionStates(for: account).makeAsyncIterator()
        return await states.next()
    }
}
