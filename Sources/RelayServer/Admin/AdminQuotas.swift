// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The quotas of an account as the operator sees them.
package struct AdminQuotas: Codable, Hashable, Sendable {
    package struct Quota: Codable, Hashable, Sendable {
        /// The limit's name.
        package var name: String
        /// The value in force.
        package var value: Int
        /// The relay's own value.
        package var relayValue: Int
        /// Whether it is set for the account.
        package var isSet: Bool
        /// What the account uses of it.
        package var used: Int
        /// The unit of the three.
        package var unit: String

        private enum CodingKeys: String, CodingKey {
            case name, value, used, unit
            case relayValue = "default"
            case isSet = "set"
        }
    }

    /// The account's id.
    package var account: String
    /// Missing if the account has no name.
    package var name: String?
    package var quotas: [Quota]

    package init(_ row: AccountRow, _ use: QuotaUse, _ limits: Limits) {
        account = row.id.rawValue
        name = row.name
        quotas = AccountQuotas.limits.map { limit in
            let own = row.quotas[limit]
            return Quota(
                name: limit.rawValue,
                value: own ?? limits[limit],
                relayValue: limits[limit],
                isSet: own != nil,
                used: use.values[limit] ?? 0,
                unit: limit.unit.rawValue
            )
        }
    }
}
