// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer

/// The quotas of accounts.
extension RelayAdministration {
    func quotas(_ account: AccountRow, _ change: QuotaChange) async throws -> AdminAnswer {
        try check(change, for: account.quotas)
        try await self.change(change, of: account.id)
        let account = try await core.accounts().meant(by: account.id.rawValue)
        return .quotas(AdminQuotas(account, try await core.quotaUse(of: account.id), core.limits))
    }

    func change(_ quotas: QuotaChange, of account: AccountID) async throws {
        if !quotas.isEmpty { try await core.change(quotas, of: account) }
    }

    /// Throws if a change is none that the relay can make.
    func check(_ change: QuotaChange, for quotas: AccountQuotas) throws(AdminError) {
        var quotas = quotas
        do throws(QuotaChange.Refused) {
            for (limit, value) in try change.limits() { quotas[limit] = value }
        } catch {
            throw AdminError("\(error)")
        }
        do throws(ControlFrameTooSmall) {
            try quotas.applied(to: core.limits).checkFrameSizes()
        } catch {
            throw AdminError("\(error)")
        }
    }
}
