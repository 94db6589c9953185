// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Requests of endpoints for tunnels.
extension AccountRelay {
    mutating func openTunnel(_ request: EndpointMessage.TunnelOpen, on channel: AccountChannel) {
        guard request.target != channel.endpoint else {
            return fail(request.ref, Rejection(.unsupported, "an endpoint needs no tunnel to itself"), on: channel.id)
        }
        let sleeps = channels.host(of: request.target) == nil && request.timeout > 0
        transact(.openTunnel(request, sleeps: sleeps, channel))
    }

    mutating func openTunnel(
        _ request: EndpointMessage.TunnelOpen,
        sleeps: Bool,
        on channel: AccountChannel,
        _ result: Result<TunnelApproval, any Error>
    ) {
        guard channels.contains(channel.id) else { return }
        switch result {
        case .success(let approval):
            if case .suppressed(let until) = approval.wake, channels.host(of: request.target) == nil {
                let retryAfter = Milliseconds(clamping: until - now.count)
                return fail(request.ref, Rejection(.wakeSuppressed, Rejection.wakeSuppressed, retryAfter: retryAfter), on: channel.id)
            }
            openTunnel(request, on: channel, approval)
            // The target has left since the request came.
            if !sleeps, channels.host(of: request.target) == nil { handlePush(of: request.target) }
        case .failure(let error): fail(request.ref, error, on: channel.id)
        }
    }

    private mutating func openTunnel(_ request: EndpointMessage.TunnelOpen, on channel: AccountChannel, _ approval: TunnelApproval) {
        var random = SystemRandomNumberGenerator()
        let tunnel = TunnelID(using: &random)
        func token() -> [UInt8] { randomBytes(TunnelPreface.tokenByteCount, using: &random) }
        do throws(LimitExceeded) {
            let opening = TunnelTable.Opening(
                opener: channel.endpoint,
                openerChannel: channel.id,
                target: request.target,
                isNew: approval.isNew,
                timeout: request.timeout
            )
            try tunnels.open(tunnel, opening, tokens: .init(opener: token(), target: token()), now: now)
        } catch {
            return fail(request.ref, Rejection(exceeding: error), on: channel.id)
        }
        noteDeadline(ofTunnel: tunnel)
        perform(.tunnel(.opened(tunnel)))
        let host = channels.host(of: request.target)
        var result = RelayMessage.OK.Result(tunnel: tunnel)
        if host == nil, case .outstanding = approval.wake { result.isWaking = true }
        send(.ok(.init(ref: request.ref, result: result)), to: channel.id)
        if case .wake(let request) = approval.wake { wake(request) }
        if let host {
            offer(tunnel, approval.introduction, to: host)
        } else if request.timeout == 0 {
            tunnels.remove(tunnel)
            fail(tunnel, channel.id, .unreachable)
        }
    }

    /// Offers a newly opened host channel the tunnels that wait for it.
    mutating func offerTunnels(to host: AccountChannel) {
        let ids = tunnels.offers(to: host.endpoint)
        guard !ids.isEmpty else { return }
        transact(.readOpeners(Set(ids.compactMap { tunnels.tunnels[$0]?.opening.opener }), host))
    }

    mutating func offerTunnels(to host: AccountChannel, _ result: Result<[EndpointID: Introduction], any Error>) {
        guard channels.contains(host.id), case .success(let introductions) = result else { return }
        for tunnel in tunnels.offers(to: host.endpoint) {
            guard let opener = tunnels.tunnels[tunnel]?.opening.opener, let introduction = introductions[opener] else { continue }
            offer(tunnel, introduction, to: host)
        }
    }

    private mutating func offer(_ id: TunnelID, _ introduction: Introduction, to host: AccountChannel) {
        guard let tunnel = tunnels.tunnels[id] else { return }
        let urls = rules.tunnelPorts.prefix(7).map { "tcp://:\($0)" } + ["wss:///v1/tunnels/\(id)"]
        func entrance(_ token: [UInt8]) -> TunnelEntrance { TunnelEntrance(tunnel: id, token: Secret(Blob(token)), urls: urls) }
        let isFirst = tunnels.offer(id, to: host.id, now: now)
        noteDeadline(ofTunnel: id)
        send(.tunnelOffer(.init(entrance: entrance(tunnel.tokens.target), opener: introduction)), to: host.id)
        guard isFirst else { return }
        send(.tunnelReady(.init(entrance: entrance(tunnel.tokens.opener))), to: tunnel.opening.openerChannel)
    }

    private mutating func noteDeadline(ofTunnel id: TunnelID) { if let tunnel = tunnels.tunnels[id] { noteDeadline(tunnel.deadline) } }

    mutating func decline(_ statement: EndpointMessage.TunnelDecline, on channel: AccountChannel) {
        perform(tunnels.decline(statement.tunnel, by: channel.endpoint, on: channel.id, isHost: channel.role == .host))
    }

    /// Passes candidates on to the other side of a tunnel. A side that is not connected misses them.
    mutating func pass(_ statement: TunnelCandidates, on channel: AccountChannel) {
        let isHost = channel.role == .host
        guard let side = tunnels.takeCandidates(in: statement.tunnel, by: channel.endpoint, on: channel.id, isHost: isHost),
            let opening = tunnels.tunnels[statement.tunnel]?.opening
        else { return }
        let receiver = side == .opener ? channels.host(of: opening.target)?.id : opening.openerChannel
        if let receiver { send(.tunnelCandidates(statement), to: receiver) }
    }

    /// Handles a connection that presents a token.
    /// - Returns: whether the connection is admitted.
    mutating func enter(_ tunnel: TunnelID, token: [UInt8], as entrant: EntrantID) -> Bool {
        guard !isStopping, let actions = tunnels.enter(tunnel, token: token, as: entrant) else { return false }
        perform(actions)
        return true
    }

    /// Carries out the actions of the tunnel table.
    mutating func perform(_ actions: [TunnelTable.Action]) {
        for action in actions {
            switch action {
            case .fail(let tunnel, let channel, let code): fail(tunnel, channel, code)
            case .pair(_, let generation, let opener, let target):
                perform(.tunnel(.pair(opener, target, generation: generation)))
            case .dismiss(let entrant, let status): perform(.tunnel(.dismiss(entrant, status)))
            case .close(let entrant): perform(.tunnel(.abort(entrant)))
            }
        }
    }

    private mutating func fail(_ tunnel: TunnelID, _ channel: ChannelID, _ code: ControlErrorCode) {
        perform(.tunnel(.failed(code)))
        let message =
            switch code {
            case .unreachable: "the target is not connected"
            case .timedOut: "one endpoint did not join the tunnel in time"
            case .declined: "the target declined the tunnel"
            case .cancelled: "the opener cancelled the tunnel"
            default: "the target is no longer in the account"
            }
        send(.tunnelFailed(.init(tunnel: tunnel, code: code, message: message)), to: channel)
    }
}

/// What an opener may do, and whether its target is woken for it.
struct TunnelApproval: Sendable {
    let introduction: Introduction
    /// Whether the opener is new to the target.
    let isNew: Bool
    var wake = WakeDecision.none
}

extension AccountTransaction {
    /// - Parameter sleeps: whether the target has to be woken.
    func approve(
        _ request: EndpointMessage.TunnelOpen,
        sleeps: Bool,
        on channel: AccountChannel,
        _ rules: RelayRules,
        at now: Int64
    ) throws -> TunnelApproval {
        let account = channel.account
        let row = try member(channel.endpoint, of: account)
        let target = try member(request.target, of: account)
        let isNew = row.isNew(to: target)
        var wake = WakeDecision.none
        if sleeps {
            let expires = now + min(request.timeout, TunnelTable.maximumTimeout).count
            wake = try self.wake(
                target.id,
                of: account,
                for: .init(urgency: isNew ? .background : .urgent, expires: expires),
                rules,
                at: now
            )
        }
        return TunnelApproval(introduction: try introduction(of: row), isNew: isNew, wake: wake)
    }

    /// The introductions of endpoints, without those that were revoked meanwhile.
    func introductions(of endpoints: Set<EndpointID>, in account: AccountID) throws -> [EndpointID: Introduction] {
        var introductions: [EndpointID: Introduction] = [:]
        for endpoint in endpoints {
            if let row = try self.endpoint(endpoint, of: account) { introductions[endpoint] = try introduction(of: row) }
        }
        return introductions
    }
}
