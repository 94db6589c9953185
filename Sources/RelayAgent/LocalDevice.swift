// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// A device of this machine: a started platform with its account. The command line or the agent that has made it also ends it.
package struct LocalDevice: Sendable {
    let platform: ConnectedDevicesPlatform
    /// The account at the relay; the anonymous one for a device without a relay.
    var account = Membership.relayAccount
    /// The directory of the account.
    let home: Home
    /// Shows what commands wait for; `nil` without a terminal.
    var waitingLine: (@Sendable (String?) -> Void)?

    var hostedApps: HostedApps { HostedApps(home) }
    /// The account's name at the relay, if the relay has stated one.
    var accountName: String? { platform.accounts.name(of: account) }
    var isJoined: Bool { platform.accounts.all.contains(account) }

    /// All accounts: that at the relay, and the anonymous one.
    var accounts: [ConnectedDevicesAccount] { platform.accounts.all }

    /// The endpoints of all accounts.
    var endpoints: [DeviceDirectory.Endpoint] { accounts.flatMap { platform.endpoints(for: $0) } }

    /// The id of an endpoint's device; `nil` if the endpoint is not known any more.
    func device(ofEndpoint id: String) -> String? { endpoints.first { "\($0.id)" == id }.map { "\($0.systemID)" } }

    /// The stored commands of all accounts.
    func commands() async throws(RemoteLaunchError) -> [RemoteCommand] {
        var all: [RemoteCommand] = []
        for account in accounts { all += try await platform.commands(for: account) }
        return all
    }

    /// One stored command of any account.
    func command(_ id: CommandID) async throws(RemoteLaunchError) -> RemoteCommand? {
        for account in accounts {
            if let command = try await platform.command(id, for: account) { return command }
        }
        return nil
    }

    /// The ids of the commands that a principal of the API has sent in the last day, or that live longer.
    func submitted(by principal: String) async throws -> Set<String> {
        var all: Set<String> = []
        for account in accounts { all.formUnion(try await platform.submissions(of: principal, for: account).map { "\($0)" }) }
        return all
    }

    /// - Throws: `notSignedIn` on a device without an account at a relay.
    func checkHasRelay() throws {
        if account == .anonymous { throw AgentError.withoutAccount }
    }

    /// The current connection state; `nil` if the account is gone.
    func connectionState() async -> ConnectionState? {
        var states = platform.connectionStates(for: account).makeAsyncIterator()
        return await states.next()
    }
}

/// A command whose work needs a device. It works in the same way on the device of a command line and on that of an agent: it prints nothing,
/// and ends when its task is cancelled. Commands with several results have `run(on:)` with a closure that takes them.
package protocol DeviceCommand: Sendable {
    associatedtype Result: AgentResult

    func run(on local: LocalDevice) async throws -> Result
    /// Runs it on a device that is made for it.
    func runHere(_ context: AgentContext) async throws -> Result
}

extension DeviceCommand {
    /// Runs it on a device that is made for it.
    package func runHere(_ context: AgentContext) async throws -> Result { try await context.withAccount { try await run(on: $0) } }

    package func run(_ context: AgentContext) async throws -> Result { try await runHere(context) }
}
