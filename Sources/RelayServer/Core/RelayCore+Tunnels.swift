// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Tunnels, as endpoints ask for them.
extension RelayCore {
    func openTunnel(_ request: EndpointMessage.TunnelOpen, on channel: Channel) {
        guard request.target != channel.endpoint else {
            return refuse(Refusal(.unsupported, "an endpoint needs no tunnel to itself"), request.ref, on: channel.id)
        }
        transact(on: channel) { store in
            let row = try store.endpoint(channel.endpoint, of: channel.account)
            let target = try store.endpoint(request.target, of: channel.account)
            return (try store.introduction(of: row), row.isNewcomer(to: target))
        } then: { [self] (state, result: Result<(Introduction, Bool), any Error>) in
            guard state.channels[channel.id] != nil else { return }
            switch result {
            case .success((let introduction, let isNewcomer)):
                openTunnel(request, on: channel, introduction, isNewcomer: isNewcomer, &state)
            case .failure(let error): state.send(.failure(Refusal(error).failure(request.ref)), to: channel.id)
            }
        }
    }

    private func openTunnel(
        _ request: EndpointMessage.TunnelOpen,
        on channel: Channel,
        _ introduction: Introduction,
        isNewcomer: Bool,
        _ state: inout State
    ) {
        var random = SystemRandomNumberGenerator()
        let id = TunnelID(using: &random)
        func token() -> [UInt8] { (0..<TunnelPreface.tokenByteCount).map { _ in UInt8.random(in: 0...255, using: &random) } }
        let host = state.host(of: request.target, in: channel.account)
        do throws(LimitExceeded) {
            let opening = TunnelTable.Opening(
                account: channel.account,
                opener: channel.endpoint,
                openerChannel: channel.id,
                target: request.target,
                isNewcomer: isNewcomer,
                timeout: request.timeout
            )
            try state.tunnels.open(id, opening, tokens: .init(opener: token(), target: token()), now: now())
        } catch {
            return state.send(.failure(Refusal(exceeding: error).failure(request.ref)), to: channel.id)
        }
        state.tunnelMetrics.wasOpened()
        state.send(.ok(.init(ref: request.ref, result: .init(tunnel: id))), to: channel.id)
        if let host {
            offer(id, introduction, to: host, &state)
        } else if request.timeout == 0 {
            state.tunnels.remove(id)
            state.fail(id, channel.id, .unreachable)
        }
        state.countTunnels()
    }

    /// A host channel opens: it hears of the tunnels that wait for it.
    func offerTunnels(to host: Channel, _ state: inout State) {
        let ids = state.tunnels.offers(to: host.endpoint)
        guard !ids.isEmpty else { return }
        let openers = Set(ids.compactMap { state.tunnels.tunnels[$0]?.opening.opener })
        transact(for: host.account) { store in
            var introductions: [EndpointID: Introduction] = [:]
            for opener in openers {
                // One that was revoked meanwhile has no tunnels any more.
                guard let row = try store.endpoint(opener), row.account == host.account else { continue }
                introductions[opener] = try store.introduction(of: row)
            }
            return introductions
        } then: { [self] state, result in
            guard state.channels[host.id] != nil, case .success(let introductions) = result else { return }
            for id in state.tunnels.offers(to: host.endpoint) {
                guard let opener = state.tunnels.tunnels[id]?.opening.opener, let introduction = introductions[opener] else { continue }
                offer(id, introduction, to: host, &state)
            }
        }
    }

    private func offer(_ id: TunnelID, _ introduction: Introduction, to host: Channel, _ state: inout State) {
        guard let tunnel = state.tunnels.tunnels[id] else { return }
        let urls = state.tunnelPorts.prefix(7).map { "tcp://:\($0)" } + ["wss:///v1/tunnels/\(id)"]
        func entrance(_ token: [UInt8]) -> TunnelEntrance { TunnelEntrance(tunnel: id, token: Secret(Blob(token)), urls: urls) }
        let isFirst = state.tunnels.offer(id, to: host.id, now: now())
        state.send(.tunnelOffer(.init(entrance: entrance(tunnel.tokens.target), opener: introduction)), to: host.id)
        guard isFirst else { return }
        state.send(.tunnelReady(.init(entrance: entrance(tunnel.tokens.opener))), to: tunnel.opening.openerChannel)
    }

    func decline(_ statement: EndpointMessage.TunnelDecline, on channel: Channel) {
        changeTunnels { tunnels in
            tunnels.decline(statement.tunnel, by: channel.endpoint, on: channel.id, isHost: channel.role == .host)
        }
    }

    /// What is to be done to tunnels, at any time.
    func changeTunnels(_ body: (inout TunnelTable) -> [TunnelTable.Action]) {
        change { state in
            state.perform(body(&state.tunnels))
        }
    }
}

extension RelayCore.State {
    /// Says and does what the table wants.
    mutating func perform(_ actions: [TunnelTable.Action]) {
        for action in actions {
            switch action {
            case .fail(let id, let channel, let code): fail(id, channel, code)
            case .pair(_, let generation, let opener, let target):
                guard let one = entrants[opener], let other = entrants[target] else { continue }
                tunnelMetrics.paired()
                outgoing.append(
                    .call { [tunnelMetrics] in TunnelConnection.pair(one, other, generation: generation, metrics: tunnelMetrics) }
                )
            case .dismiss(let entrant, let status):
                guard let connection = entrants[entrant] else { continue }
                outgoing.append(.call { connection.dismiss(status) })
            case .close(let entrant):
                guard let connection = entrants[entrant] else { continue }
                outgoing.append(.call { connection.abort() })
            }
        }
        countTunnels()
    }

    mutating func fail(_ id: TunnelID, _ channel: ChannelID, _ code: ControlErrorCode) {
        // The target's word is the same one.
        tunnelMetrics.failed(code)
        let message =
            switch code {
            case .unreachable: "the target is not connected"
            case .timedOut: "not both sides came in time"
            case .declined: "the target does not want the tunnel"
            case .cancelled: "the opener does not want the tunnel any more"
            default: "the target is not there any more"
            }
        send(.tunnelFailed(.init(tunnel: id, code: code, message: message)), to: channel)
    }

    func countTunnels() {
        tunnelMetrics.are(open: tunnels.tunnels.count, entrants: entrants.count)
    }
}

extension RelayCore {
    package func enter(_ tunnel: TunnelID, token: [UInt8], _ connection: TunnelConnection) -> EntrantID? {
        change { state in
            guard !state.isStopping else { return nil }
            state.lastEntrant += 1
            let entrant = EntrantID(state.lastEntrant)
            guard let actions = state.tunnels.enter(tunnel, token: token, as: entrant) else { return nil }
            state.entrants[entrant] = connection
            state.perform(actions)
            return entrant
        }
    }

    package func use(_ tunnel: TunnelID, generation: Int) -> Bool {
        change { $0.tunnels.use(tunnel, generation: generation) }
    }

    package func left(_ tunnel: TunnelID, _ entrant: EntrantID) {
        change { state in
            let actions = state.tunnels.left(tunnel, entrant)
            state.entrants[entrant] = nil
            state.perform(actions)
        }
    }

    package var entrantCount: Int { change { $0.entrants.count } }

    package func closeTunnels() { changeTunnels { $0.closeAll() } }
}
