// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension WakeQueue {
    /// - Returns: What is to be sent now. Each attempt must be followed by ``finished(_:_:now:random:)``.
    mutating func start(now: Milliseconds) -> (attempts: [Attempt], reports: [WakeReport]) {
        fireTimers(now)
        var attempts: [Attempt] = []
        var reports: [WakeReport] = []
        // One wake of each service in turn.
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
            // An order that came later may lead elsewhere.
            let route = Route(of: entry.order)
            guard route == entry.route else {
                move(ticket.key, to: route, now: now)
                reports += wait(ticket.key, until: now, now: now)
                continue
            }
            let end = max(pauseEnd(ticket.key, entry.order), pauseEnd(route.address))
            guard end <= now else {
                reports += wait(ticket.key, until: end, now: now)
                continue
            }
            refused = 0
            entries[ticket.key]?.isInFlight = true
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
            // One that is void is dropped.
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
        if case .accepted(let id) = outcome {
            remove(key, now: now)
            return [.accepted(attempt.order, id: id)]
        }
        return settle(entry, attempt, step, now)
    }

    mutating func settle(_ entry: Entry, _ attempt: Attempt, _ step: PushRetry.Step, _ now: Milliseconds) -> [WakeReport] {
        let key = attempt.key
        let order = attempt.order
        func end(_ why: WakeReport.NotSent) -> [WakeReport] {
            remove(key, now: now)
            return [.notSent(order, why)]
        }
        // The service's pauses hold for all wakes, however this one ends.
        if case .pause(let scope, let time, _) = step { pause(scope, attempt, until: Milliseconds(clamping: now.count + time), now) }
        if case .stopCredential(let reason) = step {
            // It was sent with credentials that were replaced meanwhile.
            guard attempt.replacements == replacements[key.credential, default: 0] else { return wait(key, until: now, now: now) }
            return stop(attempt, reason, now)
        }
        switch step {
        case .finish: remove(key, now: now)
        case .removeRegistration(let since):
            let isOlder = since.map { $0 <= order.registered } ?? false
            guard entry.order.registration == order.registration else {
                // Meanwhile the device registered anew.
                entries[key]?.retry = PushRetry()
                return (isOlder ? [] : [.registrationGone(order, since: since)]) + wait(key, until: now, now: now)
            }
            if isOlder { return end(.registeredSince) }
            remove(key, now: now)
            return [.registrationGone(order, since: since)]
        case .reject(let reason): return end(.rejected(reason: reason))
        case .leave(let reason): return end(.failed(reason: reason))
        case .suspendRegistration(let reason, let time):
            pause(.registration, attempt, until: Milliseconds(clamping: now.count + time), now)
            return end(.mismatched(reason: reason))
        case .renewCredential, .retry, .pause:
            if entry.isConnected { return end(.connected) }
            if let stop = stops[key.credential], stop > now { return end(.credentialStopped(wait: stop.count - now.count)) }
            switch step {
            case .retry(let time): return wait(key, until: Milliseconds(clamping: now.count + time), now: now)
            case .pause(_, let time, isLast: true): return end(.paused(wait: time))
            case .pause(.registration, let time, _): return wait(key, until: Milliseconds(clamping: now.count + time), now: now)
            // The others wait until it is known whether the new token is taken.
            case .renewCredential: return wait(key, until: now, now: now, isFirst: true)
            default: return wait(key, until: now, now: now)
            }
        case .stopCredential: break
        }
        return []
    }
}
