// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Takes the names that an issuer has for a user, the best one first, and the names that are taken.
package typealias NameAccount = @Sendable (_ wished: [String], _ taken: [String]) -> String?

/// Values that are the same for all accounts. They are constant from the start of the relay, except what the relay can wake.
final class RelayRules: Sendable {
    let relay: RelayID
    let limits: Limits
    let admission: CommandAdmission
    /// The ports for plain tunnel connections.
    let tunnelPorts: [Int]
    /// Whether an issuer has logins to end when an endpoint is revoked.
    let hasLogins: Bool
    /// Chooses the name of a new account from what its issuer calls the user and the names that are taken; `nil` for none.
    let nameAccount: NameAccount
    let wakeable: WakeableApps
    /// Grows with every change of `wakeable`.
    let version: Int

    init(
        relay: RelayID,
        limits: Limits,
        databaseBegan: Int64,
        tunnelPorts: [Int] = [],
        hasLogins: Bool = false,
        nameAccount: @escaping NameAccount = { _, _ in nil },
        wakeable: WakeableApps = WakeableApps(),
        version: Int = 0
    ) {
        self.relay = relay
        self.limits = limits
        self.admission = CommandAdmission(limits: limits, databaseBegan: databaseBegan)
        self.tunnelPorts = tunnelPorts
        self.hasLogins = hasLogins
        self.nameAccount = nameAccount
        self.wakeable = wakeable
        self.version = version
    }

    /// The admission of an account's commands.
    func admission(_ quotas: AccountQuotas) -> CommandAdmission {
        guard !quotas.isEmpty else { return admission }
        var admission = admission
        admission.limits = quotas.applied(to: limits)
        return admission
    }

    func changed(_ wakeable: WakeableApps, version: Int) -> RelayRules {
        changed(databaseBegan: admission.databaseBegan, wakeable, version: version)
    }

    func changed(databaseBegan: Int64) -> RelayRules { changed(databaseBegan: databaseBegan, wakeable, version: version) }

    private func changed(databaseBegan: Int64, _ wakeable: WakeableApps, version: Int) -> RelayRules {
        RelayRules(
            relay: relay,
            limits: limits,
            databaseBegan: databaseBegan,
            tunnelPorts: tunnelPorts,
            hasLogins: hasLogins,
            nameAccount: nameAccount,
            wakeable: wakeable,
            version: version
        )
    }
}
