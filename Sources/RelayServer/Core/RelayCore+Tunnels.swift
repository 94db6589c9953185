// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

extension RelayCore {
    package func enter(_ tunnel: TunnelID, token: [UInt8], _ connection: TunnelConnection) -> EntrantID? {
        // A revoked endpoint may have the token.
        guard hasYoungBeat, let (entrant, account) = tunnels.arrived(connection, for: tunnel) else { return nil }
        if change(account, { $0.enter(tunnel, token: token, as: entrant) }) == true { return entrant }
        tunnels.left(entrant)
        return nil
    }

    package func use(_ tunnel: TunnelID, generation: Int) -> Bool {
        guard let account = tunnels.account(of: tunnel) else { return false }
        return change(account) { $0.tunnels.use(tunnel, generation: generation) } ?? false
    }

    package func left(_ tunnel: TunnelID, _ entrant: EntrantID) {
        if let account = tunnels.account(of: tunnel) { change(account) { $0.perform($0.tunnels.left(tunnel, entrant)) } }
        tunnels.left(entrant)
    }

    package var entrantCount: Int { tunnels.entrants.count }

    package func closeTunnels() {
        for account in tunnels.accounts { change(account) { $0.perform($0.tunnels.closeAll()) } }
    }
}
