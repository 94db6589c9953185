// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What the operator does with the quotas of an account.
extension RelayCore {
    /// Sets quotas, or resets them.
    package func change(_ quotas: QuotaChange, of account: AccountID) async throws {
        _ = try await perform(.setQuotas(quotas), on: account)
    }

    /// What an account uses of its quotas.
    package func quotaUse(of account: AccountID) async throws -> QuotaUse {
        try await store.read { try QuotaUse(of: account, $0) }
    }
}

extension AccountTransaction {
    /// - Parameter limits: The relay's own.
    /// - Returns: Whether endpoints have to be told: they list no more endpoints than `welcome` has allowed.
    func change(_ quotas: QuotaChange, of account: AccountID, _ limits: Limits) throws -> Bool {
        // It may have been removed meanwhile.
        guard try self.account(account) != nil else { return false }
        let before = try self.quotas(of: account).applied(to: limits)
        for (limit, value) in try quotas.limits() { try setQuota(limit, to: value, of: account) }
        return try self.quotas(of: account).applied(to: limits)[.endpointsPerAccount] > before[.endpointsPerAccount]
    }
}

extension AccountRelay {
    /// The endpoints connect again, and get the account's limits in `welcome`. Tunnels in use stay.
    mutating func greetAgain() {
        for channel in channels.all {
            if channel.role == .host, channels.leaving(channel.id) != .stored { storeLoss(of: channel.endpoint) }
            close(channel, saying: .restarting(.init(after: 0, spread: 1_000)), code: 1012, reason: "the account has other limits now")
        }
    }
}
