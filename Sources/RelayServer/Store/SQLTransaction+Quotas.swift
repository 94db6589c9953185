// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayStorage

/// The limits that are set for accounts.
extension SQLTransaction {
    func quotas(of account: AccountID) throws -> AccountQuotas { try quotas(ofOnly: account)[account] ?? AccountQuotas() }

    /// - Parameter account: `nil` for all.
    func quotas(ofOnly account: AccountID?) throws -> [AccountID: AccountQuotas] {
        let rows = try database.rows(
            "SELECT account, name, value FROM quotas \(account == nil ? "" : "WHERE account = ?")",
            account.map { [$0.rawValue] } ?? []
        ) { row in (AccountID(try row.text(0)), try row.text(1), try row.count(2)) }
        return rows.reduce(into: [:]) { all, row in
            // A newer version may have set one that this version does not know.
            if let limit = Limit(rawValue: row.1) { all[row.0, default: AccountQuotas()][limit] = row.2 }
        }
    }

    func setQuota(_ limit: Limit, to value: Int?, of account: AccountID) throws {
        guard let value else {
            return try database.execute("DELETE FROM quotas WHERE account = ? AND name = ?", [account.rawValue, limit.rawValue])
        }
        try database.execute(
            """
            INSERT INTO quotas (account, name, value) VALUES (?, ?, ?)
            ON CONFLICT (account, name) DO UPDATE SET value = excluded.value
            """,
            [account.rawValue, limit.rawValue, value]
        )
    }
}
