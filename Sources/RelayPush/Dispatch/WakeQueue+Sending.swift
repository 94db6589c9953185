// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension WakeQueue {
    /// Starts the wakes that can be sent now.
    /// - Returns: The attempts, and reports of wakes that are not sent. Each attempt must be followed by ``finished(_:_:now:random:)``.
    mutating func start(now: Milliseconds) -> (attempts: [Attempt], reports: [WakeReport]) {
        fireTimers(now)
        var attempts: [Attempt] = []
        var reports: [WakeReport] = []
        // Take one wake of each service, in rotation.
        var served = 0
        var refused = 0
        defer { runnable.removeFirst(served) }
        while refused < runnable.count - served {
            let service = runnable[served]
            served += 1
            guard lines[service]?.hasReady == true, let period = lines[service]?.breaker.period else {
                isRunnable.remove(service)
                continue
            }
            runnable.append(service)
            guard lines[service]?.canSend(at: now) == true, shares.maySend(service.credential),
                let ticket = removeFirst(of: service)
            else {
                refused += 1
                continue
            }
            guard let entry = entries[ticket.key], entry.ticket == ticket.number, !entry.isInFlight else { continue }
            guard entry.deadline > now else {
                reports.append(.notSent(entry.order, .expired))
                remove(ticket.key, now: now)
                continue
            }
            let route = entry.route
            let end = max(pauseEnd(ticket.key, entry.order), pauseEnd(route.address))
            guard end <= now else {
                reports += wait(ticket.key, until: end, now: now)
                continue
            }
            refused = 0
            entries[ticket.key]?.isInFlight = true
            entries[ticket.key]?.isFollowed = false
            lines[service]?.breaker.started()
            if let address = route.address { addresses[address]?.started() }
            shares.started(entry.holder)
            let replacements = replacements[service.credential, default: 0]
            attempts.append(
                Attempt(
                    key: ticket.key,
                    order: entry.order,
                    route: route,
                    holder: entry.holder,
                    period: period,
                    addressPeriod: route.address.flatMap { addresses[$0]?.period } ?? 0,
                    replacements: replacements
                )
            )
        }
        return (attempts, reports)
    }

    private mutating func removeFirst(of service: Service) -> Ticket? {
        guard var line = lines.removeValue(forKey: service) else { return nil }
        defer { lines[service] = line }
        return line.removeFirst { ticket in
            // Void tickets are removed too; the caller discards them.
            guard let entry = entries[ticket.key], entry.ticket == ticket.number else { return true }
            return shares.maySend(entry.holder) && (entry.route.address.flatMap { addresses[$0]?.hasRoom } ?? true)
        }
    }

    mutating func finished(
        _ attempt: Attempt,
        _ outcome: PushOutcome,
        now: Milliseconds,
        random: (_ bound: Int64) -> Int64
    ) -> [WakeReport] {
        let key = attempt.key
        shares.finished(attempt.holder)
        change(attempt.route.service) { $0.finished(outcome, period: attempt.period, now: now, random: random) }
        if let address = attempt.route.address {
            change(address) { $0.finished(outcome, period: attempt.addressPeriod, now: now, random: random) }
        }
        guard var entry = entries[key] else { return [] }
        entry.isInFlight = false
        let step = entry.retry.step(after: outcome, remaining: entry.deadline.count - now.count, random: random)
        entries[key] = entry
        // A pause of the service or the registration applies to all wakes, however this one ends.
        switch step {
        case .pause(let scope, let time, _): pause(scope, attempt, until: Milliseconds(clamping: now.count + time), now)
        case .suspendRegistration(_, let time): pause(.registration, attempt, until: Milliseconds(clamping: now.count + time), now)
        case .stopCredential(let reason):
            // The attempt used a credential that was replaced meanwhile.
            guard attempt.replacements == replacements[key.credential, default: 0] else { return follow(key, now) }
            return stop(attempt, reason, now)
        default: break
        }
        // The endpoint registered again meanwhile. The outcome says nothing about the new registration.
        guard entry.order.hasRegistration(of: attempt.order) else { return report(outcome, of: attempt.order) + follow(key, now) }
        if case .accepted(let id) = outcome {
            guard entry.isFollowed else {
                remove(key, now: now)
                return [.accepted(entry.order, id: id)]
            }
            return [.accepted(attempt.order, id: id)] + follow(key, now)
        }
        return settle(entry, step, now)
    }

    /// Returns the reports of a push to a registration that was replaced meanwhile.
    private func report(_ outcome: PushOutcome, of order: WakeOrder) -> [WakeReport] {
        switch outcome {
        case .accepted(let id): [.accepted(order, id: id)]
        case .gone(let since): order.isNewer(than: since) ? [] : [.registrationGone(order, since: since)]
        default: []
        }
    }

    /// Queues a wake for a newer order that the last push does not cover.
    private mutating func follow(_ key: Key, _ now: Milliseconds) -> [WakeReport] {
        guard let entry = entries[key] else { return [] }
        if let why = obstacle(entry, now) {
            remove(key, now: now)
            return [.notSent(entry.order, why)]
        }
        return startAnew(key, now: now)
    }

    /// Returns why a wake must not be sent again; `nil` if it may be.
    private func obstacle(_ entry: Entry, _ now: Milliseconds) -> WakeReport.NotSent? {
        if let why = entry.unneeded { return why }
        guard let stop = stops[entry.order.credential], stop > now else { return nil }
        return .credentialStopped(wait: stop.count - now.count)
    }

    private mutating func settle(_ entry: Entry, _ step: PushRetry.Step, _ now: Milliseconds) -> [WakeReport] {
        let order = entry.order
        let key = order.key
        func end(_ why: WakeReport.NotSent) -> [WakeReport] {
            remove(key, now: now)
            return [.notSent(order, why)]
        }
        switch step {
        case .finish, .stopCredential: return []
        case .removeRegistration(let since):
            if order.isNewer(than: since) { return end(.registeredSince) }
            remove(key, now: now)
            return [.registrationGone(order, since: since)]
        case .reject(let reason): return end(.rejected(reason: reason))
        case .leave(let reason): return end(.failed(reason: reason))
        case .drop(let reason): return end(.dropped(reason: reason))
        case .suspendRegistration(let reason, _): return end(.mismatched(reason: reason))
        case .renewCredential, .retry, .pause:
            if let why = obstacle(entry, now) { return end(why) }
            switch step {
            case .retry(let time): return wait(key, until: Milliseconds(clamping: now.count + time), now: now)
            case .pause(_, let time, isLast: true): return end(.paused(wait: time))
            case .pause(.registration, let time, _): return wait(key, until: Milliseconds(clamping: now.count + time), now: now)
            // The other wakes wait until it is known whether the provider accepts the new token.
            case .renewCredential: return wait(key, until: now, now: now, isFirst: true)
            default: return wait(key, until: now, now: now)
            }
        }
    }
}

extension WakeOrder {
    fileprivate var key: WakeQueue.Key {
        WakeQueue.Key(endpoint: wake.payload.endpoint, credential: credential, urgency: wake.payload.urgency)
    }

    /// Whether the endpoint registered after the provider noticed the invalid registration.
    fileprivate func isNewer(than since: Milliseconds?) -> Bool { since.map { $0 <= registered } ?? false }
}
