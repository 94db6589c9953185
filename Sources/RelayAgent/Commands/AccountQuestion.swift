// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// Asks the person at the terminal whether this device joins the account of a sign-in or a link. The relay has named the account then, and the
/// device is not in it.
struct AccountQuestion: Sendable {
    private let context: AgentContext
    private let membership: Membership
    /// `nil` if another part of the command handles signals.
    private let interruption: CancellationSignal?

    init(_ membership: Membership, _ context: AgentContext, interruption: CancellationSignal? = nil) {
        self.membership = membership
        self.context = context
        self.interruption = interruption
    }

    /// Whether the person says yes. Then the membership is stored as confirmed, before this device is in the account: later commands use it.
    /// Without a person at a terminal the answer is no: a new sign-in stays in the account of the earlier one.
    @Sendable func isConfirmed(_ account: AccountToJoin) async -> Bool {
        guard context.console.canAsk else { return false }
        do {
            guard try await answer(account) else { return false }
            var membership = membership
            membership.isUnconfirmed = nil
            try context.home.store(membership)
            return true
        } catch {
            context.console.note("relay: \(AgentError(error).message)")
            return false
        }
    }

    private func answer(_ account: AccountToJoin) async throws -> Bool {
        let place = AccountText.place(account.name.map(DisplayText.quoted), at: membership.relay)
        let lines = ["The sign-in or link is for \(account.name == nil ? "an account without a name at \(place)" : place)."]
        let question = "Is this your account, and shall this device join it?"
        guard let interruption else { return try await context.console.isConfirmed(lines, question) }
        let console = context.console
        let isYes = try await interruption.cancelling { try await console.isConfirmed(lines, question) }
        return isYes && !interruption.isThere
    }
}
