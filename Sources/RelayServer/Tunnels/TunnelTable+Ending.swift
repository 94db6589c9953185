// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How tunnels end before their connections close.
extension TunnelTable {
    /// Handles the decline by one side. A paired tunnel is ended by closing it instead.
    mutating func decline(_ id: TunnelID, by endpoint: EndpointID, on channel: ChannelID, isHost: Bool) -> [Action] {
        guard let tunnel = tunnels[id], !tunnel.phase.isPaired else { return [] }
        if tunnel.opening.openerChannel == channel { return cancel(id) }
        guard tunnel.opening.target == endpoint, isHost, case .offered = tunnel.phase else { return [] }
        return end(id, .closed) + [.fail(id, tunnel.opening.openerChannel, .declined)]
    }

    /// Cancels the unpaired tunnels of an opener's channel that has closed.
    mutating func closed(_ channel: ChannelID, of endpoint: EndpointID) -> [Action] {
        tunnels(of: endpoint).sorted().flatMap { id -> [Action] in
            guard let tunnel = tunnels[id], tunnel.opening.openerChannel == channel, !tunnel.phase.isPaired else { return [] }
            return cancel(id)
        }
    }

    /// Ends tunnels whose deadline has passed.
    mutating func expire(now: Milliseconds) -> [Action] {
        pending.sorted().flatMap { id -> [Action] in
            guard let tunnel = tunnels[id], tunnel.deadline <= now else { return [] }
            var actions: [Action] = [.fail(id, tunnel.opening.openerChannel, .timedOut)]
            if case .offered(let channel) = tunnel.phase { actions.append(.fail(id, channel, .timedOut)) }
            return end(id, .timedOut) + actions
        }
    }

    /// Ends the tunnels of a revoked endpoint.
    mutating func revoke(_ endpoint: EndpointID) -> [Action] {
        tunnels(of: endpoint).sorted().flatMap { id -> [Action] in
            guard let tunnel = tunnels[id] else { return [] }
            guard !tunnel.phase.isPaired else { return end(id, .closed) }
            if tunnel.opening.opener == endpoint { return cancel(id) }
            return end(id, .closed) + [.fail(id, tunnel.opening.openerChannel, .notFound)]
        }
    }

    /// Ends the pending tunnels, because the stopping relay admits no more connections.
    mutating func stop() -> [Action] { pending.sorted().flatMap { end($0, .closed) } }

    /// Ends all tunnels.
    mutating func closeAll() -> [Action] { tunnels.keys.sorted().flatMap { end($0, .closed) } }

    private mutating func cancel(_ id: TunnelID) -> [Action] {
        var actions: [Action] = []
        if case .offered(let channel) = tunnels[id]?.phase { actions.append(.fail(id, channel, .cancelled)) }
        return end(id, .closed) + actions
    }

    private mutating func end(_ id: TunnelID, _ status: TunnelStatus) -> [Action] {
        guard let tunnel = tunnels[id] else { return [] }
        remove(id)
        let entrants = [TunnelTable.Side.opener, .target].compactMap { tunnel.entrants[$0] }
        return entrants.map { tunnel.phase.isPaired ? .close($0) : .dismiss($0, status) }
    }
}
