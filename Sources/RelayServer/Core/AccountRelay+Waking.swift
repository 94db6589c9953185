// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What a transaction has decided and stored about waking an endpoint.
enum WakeDecision: Sendable {
    /// The endpoint cannot be woken, or the time of the next wake is not reached.
    case none
    case wake(WakeRequest)
    /// A wake was sent a moment ago, and counts for this too.
    case outstanding(CommandWake)
    /// No wake is allowed before a time.
    case suppressed(until: Int64)
}

/// Wakes of endpoints that are not connected while something waits for them.
///
/// There is no queue of wakes. A wake is derived from the commands that wait, and `PushRow.due` says when to look again.
extension AccountRelay {
    // MARK: Due wakes

    /// Handles a push registration whose time has come, or an endpoint that may have to be woken.
    /// - Parameter isSilent: the endpoint is connected, but does not answer.
    mutating func handlePush(of endpoint: EndpointID, isSilent: Bool = false) {
        let host: AccountWork.HostState = isSilent ? .silent : channels.host(of: endpoint) == nil ? .absent : .connected
        transact(.handlePush(endpoint, host, tunnels: tunnels.urgency(for: endpoint), servedSince: servedSince, at: now.count))
    }

    mutating func handledPush(_ host: AccountWork.HostState, _ result: Result<(PushRow, WakeDecision)?, any Error>) {
        guard case .success(let (push, decision)?) = result else { return }
        if case .wake(let request) = decision { wake(request, isSilent: host == .silent) }
        refreshPresences(of: [push.endpoint])
    }

    /// Sends a wake that is stored as sent. If the endpoint has connected meanwhile, the wake is not needed, and must not count: the next
    /// one would be late.
    mutating func wake(_ request: WakeRequest, isSilent: Bool = false) {
        let endpoint = request.payload.endpoint
        guard isSilent || channels.host(of: endpoint) == nil else { return handlePush(of: endpoint) }
        perform(.wake(request))
        // A wake that was accepted before no longer counts.
        refreshPresences(of: [endpoint])
    }

    // MARK: Outcomes

    /// The sender of the wakes reports what became of one.
    mutating func waked(_ request: WakeRequest, _ outcome: WakeOutcome) {
        if case .failed = outcome { return }
        transact(.waked(request, outcome))
    }

    mutating func waked(_ endpoint: EndpointID, _ outcome: WakeOutcome, _ result: Result<(PushRow, [CommandDescriptor])?, any Error>) {
        guard case .success(let (push, commands)?) = result else { return }
        for command in commands { tell(command.lane.sender, .waking(push.wake), of: command.id) }
        if case .suppressed(let until) = outcome { failWaitingTunnels(to: endpoint, until: until) }
        refreshPresences(of: [endpoint])
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
    /// Looks at a registration whose time has come, or whose endpoint may have to be woken.
    func handlePush(
        of endpoint: EndpointID,
        in account: AccountID,
        _ host: AccountWork.HostState,
        tunnels: WakePayload.Urgency?,
        servedSince: Milliseconds,
        _ rules: RelayRules,
        at time: Int64
    ) throws -> (PushRow, WakeDecision)? {
        guard var push = try push(of: endpoint), push.account == account else { return nil }
        let before = push
        push.forgetLostWake(start: servedSince.count)
        var decision = WakeDecision.none
        if host == .connected {
            _ = push.connected(at: time)
            push.response = before.response
        } else if let waiting = try waiting(for: endpoint, account: account, tunnels: tunnels, at: time), push.takesWakes(at: time) {
            decision = try decide(&push, waiting, isNew: host == .silent, rules, at: time)
        } else {
            push.setDue(nil, now: time)
        }
        if push != before { try put(push) }
        return (push, decision)
    }

    /// Stores what became of a wake.
    /// - Returns: also the commands that it was for, once a provider has accepted it; `nil` if it says nothing about the registration now.
    func waked(_ request: WakeRequest, _ outcome: WakeOutcome, in account: AccountID, at now: Int64) throws -> (
        PushRow, [CommandDescriptor]
    )? {
        let endpoint = request.payload.endpoint
        // An outcome says nothing about a registration that came later.
        guard var push = try push(of: endpoint), push.account == account, push.registered == request.registered.count, !push.isGone
        else { return nil }
        var commands: [CommandDescriptor] = []
        switch outcome {
        case .accepted:
            push.isRefused = false
            // The endpoint may have connected meanwhile.
            guard push.schedule.last != nil else { break }
            push.accepted = now
            commands = try mailbox(of: endpoint, account: account).filter { $0.expires > now }
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
        try put(push)
        return (push, commands)
    }

    /// Decides on a wake for something new that waits for an endpoint that is not connected.
    func wake(
        _ endpoint: EndpointID,
        of account: AccountID,
        for waiting: WaitingCommands,
        _ rules: RelayRules,
        at now: Int64
    ) throws -> WakeDecision {
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
    ) throws -> WakeDecision {
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
        push.setDue(max(now + WakeableHosts.silencePeriod, push.suppressed ?? 0), now: now)
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
