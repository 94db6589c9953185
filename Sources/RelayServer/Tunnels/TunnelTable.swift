// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The tunnels of an account and their connections, without I/O and clock.
///
/// A tunnel waits for the host channel of its target, is then offered, is paired when the connections of both sides are present, and is
/// used from the first byte on.
struct TunnelTable: Sendable {
    enum Side: Hashable, Sendable {
        case opener, target
        var other: Side { self == .opener ? .target : .opener }
    }

    enum Action: Hashable, Sendable {
        /// Report on a channel that the tunnel has failed.
        case fail(TunnelID, ChannelID, ControlErrorCode)
        /// Forward bytes between two connections.
        case pair(TunnelID, generation: Int, opener: EntrantID, target: EntrantID)
        /// Send a status to a waiting connection, and close it.
        case dismiss(EntrantID, TunnelStatus)
        /// Close a paired connection.
        case close(EntrantID)
    }

    struct Opening: Sendable {
        var opener: EndpointID
        var openerChannel: ChannelID
        var target: EndpointID
        /// Whether the opener is a new endpoint, which has lower limits.
        var isNew = false
        /// How long to wait for the target's host channel.
        var timeout: Milliseconds
    }

    struct Tokens: Sendable {
        var opener: [UInt8]
        var target: [UInt8]
    }

    enum Phase: Hashable, Sendable {
        case waiting
        case offered(to: ChannelID)
        case paired(generation: Int, isUsed: Bool)

        var isPaired: Bool { if case .paired = self { true } else { false } }
    }

    struct Tunnel: Sendable {
        let opening: Opening
        let tokens: Tokens
        var phase = Phase.waiting
        /// The end of the current phase, before the pairing.
        var deadline: Milliseconds
        var entrants: [Side: EntrantID] = [:]
        var lastGeneration = 0
        /// How many candidates of each side were taken.
        var candidates: [Side: Int] = [:]
    }

    /// How long both sides may take to connect after the offer.
    static let pairingTime: Milliseconds = 10_000
    /// The longest wait for a sleeping target.
    static let maximumTimeout: Milliseconds = 300_000

    let limits: Limits
    private(set) var tunnels: [TunnelID: Tunnel] = [:]
    /// The tunnels that are not paired.
    private(set) var pending: Set<TunnelID> = []
    /// The earliest end of a phase.
    var nextDeadline: Milliseconds? { pending.lazy.compactMap { self.tunnels[$0]?.deadline }.min() }
    private var ofEndpoint: [EndpointID: Set<TunnelID>] = [:]
    /// The tunnels that have ended since the last `takeEnded`.
    private var ended: [TunnelID] = []

    init(limits: Limits) { self.limits = limits }

    mutating func open(_ id: TunnelID, _ opening: Opening, tokens: Tokens, now: Milliseconds) throws(LimitExceeded) {
        for endpoint in [opening.opener, opening.target] { try limits.check(.sessionsPerEndpoint, tunnels(of: endpoint).count + 1) }
        try checkShare(of: opening)
        let deadline = now + min(opening.timeout, Self.maximumTimeout)
        tunnels[id] = Tunnel(opening: opening, tokens: tokens, deadline: deadline)
        pending.insert(id)
        for endpoint in [opening.opener, opening.target] { ofEndpoint[endpoint, default: []].insert(id) }
    }

    /// Passes if the opener has fewer tunnels to the target than its share. So neither one endpoint nor many new ones take all the room.
    private func checkShare(of opening: Opening) throws(LimitExceeded) {
        var (ofOpener, ofNewcomers) = (0, 0)
        for id in tunnels(of: opening.target) {
            guard let other = tunnels[id]?.opening, other.target == opening.target else { continue }
            if other.opener == opening.opener { ofOpener += 1 }
            if other.isNew { ofNewcomers += 1 }
        }
        try limits.check(.tunnelsPerPair, ofOpener + 1)
        guard opening.isNew else { return }
        try limits.check(.tunnelsPerNewcomer, ofOpener + 1)
        try limits.check(.tunnelsOfNewcomers, ofNewcomers + 1)
    }

    /// The tunnels to offer to a host channel of their target, ordered by id.
    func offers(to target: EndpointID) -> [TunnelID] {
        tunnels(of: target).filter { id in
            guard let tunnel = tunnels[id], tunnel.opening.target == target, !tunnel.phase.isPaired else { return false }
            return tunnel.entrants[.target] == nil
        }.sorted()
    }

    /// The tunnels that wait for a host channel of their target, with the channels of their openers, ordered by id.
    func waiting(for target: EndpointID) -> [(tunnel: TunnelID, opener: ChannelID)] {
        tunnels(of: target).sorted().compactMap { id in
            guard let tunnel = tunnels[id], tunnel.opening.target == target, tunnel.phase == .waiting else { return nil }
            return (id, tunnel.opening.openerChannel)
        }
    }

    /// The class of the wakes for the tunnels that wait for a target; `nil` if there are none.
    func urgency(for target: EndpointID) -> WakePayload.Urgency? {
        let waiting = waiting(for: target)
        guard !waiting.isEmpty else { return nil }
        return waiting.contains { tunnels[$0.tunnel]?.opening.isNew == false } ? .urgent : .background
    }

    /// Records that the offer is sent on a channel.
    /// - Returns: whether it is the first offer.
    mutating func offer(_ id: TunnelID, to channel: ChannelID, now: Milliseconds) -> Bool {
        guard let tunnel = tunnels[id] else { return false }
        switch tunnel.phase {
        case .waiting:
            tunnels[id]?.phase = .offered(to: channel)
            tunnels[id]?.deadline = now + Self.pairingTime
            return true
        case .offered:
            // Repeats the same offer on another channel, within the remaining time.
            tunnels[id]?.phase = .offered(to: channel)
            return false
        case .paired: return false
        }
    }

    /// Handles a connection that presents a token.
    /// - Returns: `nil` if the connection is not admitted.
    mutating func enter(_ id: TunnelID, token: [UInt8], as entrant: EntrantID) -> [Action]? {
        guard var tunnel = tunnels[id], let side = tunnel.side(of: token) else { return nil }
        switch tunnel.phase {
        case .waiting, .paired(_, isUsed: true): return nil
        case .offered, .paired(_, isUsed: false): break
        }
        var actions: [Action] = []
        if let older = tunnel.entrants.updateValue(entrant, forKey: side) { actions.append(.dismiss(older, .replaced)) }
        if let opener = tunnel.entrants[.opener], let target = tunnel.entrants[.target] {
            tunnel.lastGeneration += 1
            tunnel.phase = .paired(generation: tunnel.lastGeneration, isUsed: false)
            pending.remove(id)
            actions.append(.pair(id, generation: tunnel.lastGeneration, opener: opener, target: target))
        }
        tunnels[id] = tunnel
        return actions
    }

    /// Takes candidates of one side for the other one, once that side has the offer or its answer.
    /// - Returns: the side whose candidates they are; `nil` if they are not taken.
    mutating func takeCandidates(in id: TunnelID, by endpoint: EndpointID, on channel: ChannelID, isHost: Bool) -> Side? {
        guard let tunnel = tunnels[id], tunnel.phase != .waiting else { return nil }
        let side: Side
        if tunnel.opening.openerChannel == channel {
            side = .opener
        } else if tunnel.opening.target == endpoint, isHost {
            side = .target
        } else {
            return nil
        }
        let taken = tunnel.candidates[side, default: 0]
        guard taken < TunnelCandidates.mostOfASide else { return nil }
        tunnels[id]?.candidates[side] = taken + 1
        return side
    }

    /// Marks a pairing as used.
    /// - Returns: whether that pairing is the current one.
    mutating func use(_ id: TunnelID, generation: Int) -> Bool {
        guard case .paired(let current, _) = tunnels[id]?.phase, current == generation else { return false }
        tunnels[id]?.phase = .paired(generation: current, isUsed: true)
        return true
    }

    /// Handles a closed connection.
    mutating func left(_ id: TunnelID, _ entrant: EntrantID) -> [Action] {
        guard let tunnel = tunnels[id], let side = tunnel.entrants.first(where: { $0.value == entrant })?.key else { return [] }
        tunnels[id]?.entrants[side] = nil
        guard case .paired(_, let isUsed) = tunnel.phase else { return [] }
        guard let other = tunnel.entrants[side.other] else {
            remove(id)
            return []
        }
        // In a used tunnel, each handler informs the other side of the end.
        if isUsed { return [] }
        remove(id)
        return [.close(other)]
    }

    /// Returns the tunnels that have ended since the last call.
    mutating func takeEnded() -> [TunnelID] {
        guard !ended.isEmpty else { return [] }
        defer { ended = [] }
        return ended
    }

    func tunnels(of endpoint: EndpointID) -> Set<TunnelID> { ofEndpoint[endpoint] ?? [] }

    mutating func remove(_ id: TunnelID) {
        guard let tunnel = tunnels.removeValue(forKey: id) else { return }
        pending.remove(id)
        ended.append(id)
        for endpoint in [tunnel.opening.opener, tunnel.opening.target] {
            ofEndpoint[endpoint]?.remove(id)
            if ofEndpoint[endpoint]?.isEmpty ?? false { ofEndpoint[endpoint] = nil }
        }
    }
}

extension TunnelTable.Tunnel {
    fileprivate func side(of token: [UInt8]) -> TunnelTable.Side? {
        // Both tokens are compared in full, so that the timing reveals nothing.
        let isOpener = Self.areEqual(token, tokens.opener)
        let isTarget = Self.areEqual(token, tokens.target)
        return isOpener ? .opener : isTarget ? .target : nil
    }

    private static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && zip(left, right).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
