// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// A device of this machine: a started platform with its account. The command line or the agent that has made it also ends it.
package struct LocalDevice: Sendable {
    let platform: ConnectedDevicesPlatform
    var account = Membership.account
    /// The directory of the account.
    let home: Home
    /// Shows what commands wait for; `nil` without a terminal.
    var waitingLine: (@Sendable (String?) -> Void)?

    var hostedApps: HostedApps { HostedApps(home) }
    /// The account's name at the relay, if the relay has stated one.
    var accountName: String? { platform.accounts.name(of: account) }
    var isJoined: Bool { platform.accounts.all.contains(account) }

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
}

extension DeviceCommand {
    /// Runs it on a device that is made for it.
    package func run(_ context: AgentContext) async throws -> Result { try await context.withAccount { try await run(on: $0) } }
}
