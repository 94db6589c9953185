// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Removes this device from the account, and deletes its keys and data here.
package struct Leave: Sendable {
    package init() {}

    package struct Result: AgentResult {
        package var relay: String
        /// Whether this device is revoked at the relay: by this command, or before. Otherwise another device has to revoke this one.
        package var revoked: Bool
        /// The endpoint id that this device had.
        package var endpoint: String?

        package func lines(_ style: Style) -> [String] { ["left \(relay)"] }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        _ = try membership(context)
        return try await context.home.changingAccount { try await leave(context) }
    }

    private func membership(_ context: AgentContext) throws -> Membership {
        if let stored = try context.home.storedMembership() { stored } else { try context.home.membership() }
    }

    private func leave(_ context: AgentContext) async throws -> Result {
        let membership = try membership(context)
        guard membership.hasRelay else {
            throw AgentError("notSignedIn", "this device has no account to leave; to end a pairing, run: relay unpair DEVICE", .notSignedIn)
        }
        if membership.isUnconfirmed ?? false {
            try await context.forgetUnfinished(membership)
            return Result(relay: membership.relay, revoked: false)
        }
        let result = try await context.withPlatform(membership) { local in
            guard local.isJoined else { return Result(relay: membership.relay, revoked: false) }
            let endpoint = local.platform.accounts.endpoint(of: local.account)?.description
            let wasRevoked = await waitForRelay(local)
            let isRevoked = try await local.platform.accounts.remove(local.account) || wasRevoked
            if !isRevoked, let endpoint {
                context.console.note("the relay did not revoke this device. On another device, run: relay revoke \(endpoint)")
            }
            return Result(relay: membership.relay, revoked: isRevoked, endpoint: endpoint)
        }
        try context.home.removeMembership()
        return result
    }

    /// Waits for the relay. Leaving also works without it, so errors are ignored.
    /// - Returns: Whether the relay says that this device was revoked before.
    private func waitForRelay(_ local: LocalDevice) async -> Bool {
        do {
            try await local.waitForDirectory()
            return false
        } catch {
            return (error as? ConnectionError)?.code == .endpointRevoked
        }
    }
}
