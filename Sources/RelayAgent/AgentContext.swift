// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// The environment of a command: its account and its console.
package struct AgentContext: Sendable {
    package let accounts: HomeAccounts
    /// The name of the account that the command uses.
    package let account: String
    package let console: Console
    /// The version of this program.
    package let version: String
    /// Whether a command may run by the agent of the home instead of a device that is made for it.
    package let usesAgent: Bool

    package init(accounts: HomeAccounts, account: String, console: Console, version: String, usesAgent: Bool = true) {
        (self.version, self.usesAgent) = (version, usesAgent)
        self.accounts = accounts
        self.account = account
        self.console = console
    }

    /// The directory of the account.
    package var home: Home { accounts.home(of: account) }

    /// What the home holds of this device, without the relay and without any write.
    func storedEndpoint() throws -> StoredEndpoint {
        guard let endpoint = try StoredEndpoint.read(try home.membership().account, in: home.path) else {
            throw AgentError.joiningUnfinished
        }
        return endpoint
    }

    /// Starts the platform of the home, runs a closure with it, and shuts it down.
    /// - Parameters:
    ///   - accessTokens: The source of tokens; `nil` for the stored login.
    ///   - question: Asks whether this device joins an account; `nil` joins without a question.
    ///   - connects: Whether the command needs the relay.
    ///   - changing: Changes how the local network is used.
    ///   - prepare: Runs before the platform starts.
    func withPlatform<Result>(
        _ membership: Membership,
        accessTokens: (any AccessTokenProvider)? = nil,
        asking question: (@Sendable (AccountToJoin) async -> Bool)? = nil,
        connects: Bool = true,
        changing: (inout NearbySettings) -> Void = { _ in },
        prepare: (ConnectedDevicesPlatform) throws -> Void = { _ in },
        _ body: (LocalDevice) async throws -> Result
    ) async throws -> Result {
        let platform =
            if let accessTokens {
                try membership.platform(
                    in: home,
                    console: console,
                    accessTokens: accessTokens,
                    confirmsAccount: question,
                    changing: changing
                )
            } else {
                try membership.platform(in: home, console: console, confirmsAccount: question, changing: changing)
            }
        if !connects { await platform.suspend() }
        try prepare(platform)
        do {
            try await platform.start()
            let result = try await body(
                LocalDevice(platform: platform, account: membership.account, home: home, waitingLine: console.waitingLine)
            )
            await platform.shutdown()
            return result
        } catch {
            let isJoined = platform.accounts.all.contains(membership.account)
            await platform.shutdown()
            throw AgentError(error, at: membership, isJoined: isJoined) ?? error
        }
    }

    /// Removes what an earlier command has left that ended before a person confirmed the account, and ends its login.
    func forgetUnfinished(_ membership: Membership) async throws {
        try await withPlatform(membership, connects: false) { local in
            if local.isJoined { try await local.platform.accounts.remove(local.account) }
        }
        try home.removeMembership()
    }

    /// Runs a closure with the account that this device has joined, or without a relay with the anonymous one.
    func withAccount<Result>(
        connects: Bool = true,
        changing: (inout NearbySettings) -> Void = { _ in },
        prepare: (ConnectedDevicesPlatform) throws -> Void = { _ in },
        _ body: (LocalDevice) async throws -> Result
    ) async throws -> Result {
        try await withPlatform(try home.membership(), connects: connects, changing: changing, prepare: prepare) { local in
            guard local.isJoined else { throw AgentError.joiningUnfinished }
            do {
                return try await body(local)
            } catch {
                throw AgentError(error, new: local) ?? error
            }
        }
    }

    /// Runs a closure with the account's device, or, if the home takes no writes, with what it holds.
    /// - Parameter stored: Gets why the device could not be used.
    func withAccount<Result>(
        _ body: (LocalDevice) async throws -> Result,
        orStored stored: (StoredEndpoint.Contents, AgentError) async throws -> Result
    ) async throws -> Result {
        do {
            return try await withAccount(body)
        } catch {
            let failure = AgentError(error)
            guard failure.code == "storageFailed", let endpoint = try? storedEndpoint(),
                let contents = try? endpoint.contents()
            else { throw error }
            return try await stored(contents, failure)
        }
    }

    /// Runs a closure with the account's device until it ends, or a signal of the user or the service manager cancels it.
    func untilStopped(_ body: @escaping @Sendable (LocalDevice) async throws -> Void) async throws {
        let stop = StopSignal()
        try await withAccount { local in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await stop.arrived() }
                group.addTask { try await body(local) }
                try await group.next()
                group.cancelAll()
                // After a signal, a closure may still print a summary.
                try await group.waitForAll()
            }
        }
    }
}
