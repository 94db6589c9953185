// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Wakes of endpoints that are not connected while something waits for them.
///
/// There is no queue of wakes. A wake is derived from the commands that wait, and `PushRow.due` says when to look again.
extension AccountRelay {
    /// What a transaction has decided and stored about waking an endpoint.
    enum Waking: Sendable {
        /// The endpoint cannot be woken, or the time of the next wake is not reached.
        case none
        case wake(WakeRequest)
        /// A wake was sent a moment ago, and counts for this too.
        case outstanding(CommandWake)
        /// No wake is allowed before a time.
        case suppressed(until: Int64)
    }

    /// How long a host may leave an offer without any sign of life before it is woken. A connection that was lost has the same time to
    /// come back.
    static let silencePeriod: Int64 = 10_000

    // MARK: Due wakes

    /// Handles a push registration whose time has come, or an endpoint that may have to be woken.
    /// - Parameter isSilent: the endpoint is connected, but does not answer.
    mutating func handlePush(of endpoint: EndpointID, isSilent: Bool = false) {
        let (account, rules, time) = (id, rules, now.count)
        let (isConnected, awaited) = (host(of: endpoint) != nil && !isSilent, tunnels.urgency(for: endpoint))
        transact { store, _ -> (PushRow, Waking)? in
            guard var push = try store.push(of: endpoint), push.account == account else { return nil }
            let before = push
            push.forgetLostWake(start: rules.startTime)
            var waking = Waking.none
            if isConnected {
                _ = push.connected(at: time)
                push.response = before.response
            } else if let waiting = try store.waiting(for: endpoint, account: account, tunnels: awaited, at: time),
                push.takesWakes(at: time)
            {
                waking = try store.decide(&push, waiting, isNew: isSilent, rules, at: time)
            } else {
                push.setDue(nil, now: time)
            }
            if push != before { try store.put(push) }
            return (push, waking)
        } then: { relay, result in
            guard case .success((let push, let waking)?) = result else { return }
            if case .wake(let request) = waking { relay.wake(request, isSilent: isSilent) }
            relay.refreshPresences(of: [push.endpoint])
        }
    }

    /// An endpoint that was connected when something came for it has left. If it does not come back soon, it is woken.
    mutating func startWaking(_ endpoint: EndpointID) {
        let (account, time) = (id, now.count)
        transact { store, _ in
            try store.startWaking(endpoint, of: account, at: time)
        } then: { _, _ in
        }
    }

    /// Sends a wake that is stored as sent. If the endpoint has connected meanwhile, the wake is not needed, and must not count: the next
    /// one would be late.
    mutating func wake(_ request: WakeRequest, isSilent: Bool = false) {
        let endpoint = request.payload.endpoint
        guard isSilent || host(of: endpoint) == nil else { return handlePush(of: endpoint) }
        perform(.wake(request))
        // A wake that was accepted before no longer counts.
        refreshPresences(of: [endpoint])
    }

    /// A host that can be woken is offered a command.
    mutating func noteOffer(to host: ChannelID) {
        guard channels[host]?.isWakeable ?? false, offerTimes[host] == nil else { return }
        offerTimes[host] = now
        noteDeadline(now + Milliseconds(clamping: Self.silencePeriod))
    }

    /// Wakes hosts that were offered a command and gave no sign of life since.
    mutating func wakeSilentHosts() {
        for (channel, time) in offerTimes.sorted(by: { $0.key < $1.key }) where now.count >= time.count + Self.silencePeriod {
            offerTimes[channel] = nil
            guard let endpoint = channels[channel]?.channel.endpoint else { continue }
            wokenHosts.insert(channel)
            handlePush(of: endpoint, isSilent: true)
        }
    }

    // MARK: Outcomes

    /// The sender of the wakes reports what became of one.
    mutating func waked(_ request: WakeRequest, _ outcome: WakeOutcome) {
        if case .failed = outcome { return }
        let (account, endpoint) = (id, request.payload.endpoint)
        transact { store, now -> (PushRow, [CommandDescriptor])? in
            // An outcome says nothing about a registration that came later.
            guard var push = try store.push(of: endpoint), push.account == account, push.registered == request.registered.count,
                !push.isGone
            else { return nil }
            var commands: [CommandDescriptor] = []
            switch outcome {
            case .accepted:
                push.isRefused = false
                // The endpoint may have connected meanwhile.
                guard push.schedule.last != nil else { break }
                push.accepted = now
                commands = try store.mailbox(of: endpoint, account: account).filter { $0.expires > now }
            case .gone(let since):
                guard since.map({ $0.count > push.registered }) ?? true else { return nil }
                push.isGone = true
                push.setDue(nil, now: now)
            case .refused(let until):
                push.isRefused = true
                guard let until else { break }
                push.suppressed = until.count
                if let due = push.due { push.setDue(max(due, until.count), now: now) }
            case .suppressed(let until):
                push.suppressed = until.count
                if let due = push.due { push.setDue(max(due, until.count), now: now) }
            case .failed: return nil
            }
            try store.put(push)
            return (push, commands)
        } then: { relay, result in
            guard case .success((let push, let commands)?) = result else { return }
            switch outcome {
            case .accepted: for command in commands { relay.tell(command.lane.sender, .waking(push.wake), of: command.id) }
            case .suppressed(let until): relay.failWaitingTunnels(to: endpoint, until: until)
            case .gone, .refused, .failed: break
            }
            relay.refreshPresences(of: [endpoint])
        }
    }

    private mutating func failWaitingTunnels(to endpoint: EndpointID, until: Milliseconds) {
        for (tunnel, channel) in tunnels.waiting(for: endpoint) {
            tunnels.remove(tunnel)
            perform(.tunnel(.failed(.wakeSuppressed)))
            let failed = RelayMessage.TunnelFailed(
                tunnel: tunnel,
                code: .wakeSuppressed,
                message: Rejection.wakeSuppressed,
                retryAfter: Milliseconds(clamping: until.count - now.count)
            )
            send(.tunnelFailed(failed), to: channel)
        }
    }
}

extension Rejection {
    static let wakeSuppressed = "the target sleeps, and its push service takes no wake now"
}

extension AccountTransaction {
    /// Decides on a wake for something new that waits for an endpoint that is not connected.
    func wake(
        _ endpoint: EndpointID,
        of account: AccountID,
        for waiting: WaitingCommands,
        _ rules: RelayRules,
        at now: Int64
    ) throws -> AccountRelay.Waking {
        guard var push = try push(of: endpoint), push.account == account, push.takesWakes(at: now) else { return .none }
        let before = push
        let waking = try decide(&push, waiting, isNew: true, rules, at: now)
        // Without a wake now, the next one may already be due early enough; then nothing has to be written.
        if case .wake = waking { try put(push) } else if push.due != before.due { try put(push) }
        return waking
    }

    /// - Parameter isNew: whether something new waits. Otherwise the wake is a repeated one, by the schedule.
    func decide(
        _ push: inout PushRow,
        _ waiting: WaitingCommands,
        isNew: Bool,
        _ rules: RelayRules,
        at now: Int64
    ) throws -> AccountRelay.Waking {
        let before = push.due
        // No endpoint of a disabled account is woken, and none without a credential. The relay looks again later: the account may be
        // enabled by then, or the credential be there.
        if try isDisabled(push.account) || !push.hasCredential(rules) {
            push.setDue(now + WakeSchedule.longestDelay, now: now)
            return .none
        }
        if isNew { push.schedule.add(waiting.urgency, at: now) }
        let next = push.nextWake(waiting.urgency, at: now)
        guard next > now else {
            push.sent(waiting.urgency, at: now)
            return .wake(push.request(waiting, relay: rules.relay, alert: try alert(for: push, waiting, at: now)))
        }
        push.setDue(isNew ? min(next, before.map { $0 > now ? $0 : next } ?? next) : next, now: now)
        if push.isOutstanding(at: now) { return .outstanding(push.wake) }
        if let suppressed = push.suppressed, suppressed > now { return .suppressed(until: suppressed) }
        return .none
    }

    /// The text of a wake: it names who launches if the endpoint allows it and nothing else waits.
    private func alert(for push: PushRow, _ waiting: WaitingCommands, at now: Int64) throws -> WakeAlert {
        guard push.showsNames, waiting.urgency == .urgent else { return .general }
        let commands = try mailbox(of: push.endpoint, account: push.account).filter { $0.expires > now }
        guard commands.count == 1, let command = commands.first,
            let blob = try blob(of: StoredCommandKey(account: push.account, command: command.key)),
            let header = try? SealedCommand(decoding: blob).header, header.kind == .launch,
            let sender = try endpoint(header.sender, of: push.account),
            let device = try? Unverified<EndpointRecord>(decoding: sender.record).payload.name
        else { return .general }
        guard let app = header.senderApp, let row = try registrations(of: sender.id).first(where: { $0.appID == app }),
            let name = try? Unverified<AppRegistration>(decoding: row.registration).payload.displayName, !name.isEmpty
        else { return .launch(device: device) }
        return .launchFromApp(app: name, device: device)
    }

    /// - Parameter tunnels: the class of the tunnels that wait for the endpoint.
    func waiting(
        for endpoint: EndpointID,
        account: AccountID,
        tunnels: WakePayload.Urgency?,
        at now: Int64
    ) throws -> WaitingCommands? {
        let commands = try waiting(for: endpoint, account: account, at: now)
        guard let tunnels, commands?.urgency != .urgent else { return commands }
        let expires = now + WakePayload.Urgency.urgent.interval
        return WaitingCommands(urgency: tunnels, expires: max(commands?.expires ?? 0, expires))
    }

    /// The connection of an endpoint has ended. If commands wait for it, it is woken unless it comes back soon.
    func startWaking(_ endpoint: EndpointID, of account: AccountID, at now: Int64) throws {
        guard var push = try push(of: endpoint), push.account == account, push.takesWakes(at: now),
            try waiting(for: endpoint, account: account, at: now) != nil
        else { return }
        push.setDue(max(now + AccountRelay.silencePeriod, push.suppressed ?? 0), now: now)
        try put(push)
    }
}

extension PushRow {
    /// What a sender is told about a wake.
    var wake: CommandWake { .init(channel: channel.kind?.rawValue, expectedWithin: expectedWithin) }

    fileprivate func request(_ waiting: WaitingCommands, relay: RelayID, alert: WakeAlert) -> WakeRequest {
        WakeRequest(
            account: account,
            payload: WakePayload(relay: relay, endpoint: endpoint, urgency: waiting.urgency),
            appID: appID,
            displayName: displayName,
            alert: alert,
            channel: channel,
            registered: Milliseconds(clamping: registered),
            expires: Milliseconds(clamping: waiting.expires)
        )
    }
}
