// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayCollections
import RelayProtocol

extension WakeQueue {
    mutating func pause(_ scope: PushScope, _ attempt: Attempt, until end: Milliseconds, _ now: Milliseconds) {
        switch scope {
        case .credential:
            change(attempt.route.service) { $0.pause(until: end) }
        case .registration:
            // The number of pauses is bounded. Beyond the bound, a pause is not kept.
            if pauses.count >= limits.outstanding { pauses = pauses.filter { $0.value.end > now } }
            guard pauses.count < limits.outstanding else { return }
            pauses[attempt.key.target] = Pause(end: end, registration: attempt.order.registration)
        }
    }

    /// Returns the time until which nothing is sent to an order's registration. It is in the past if the registration is not paused.
    func pauseEnd(_ key: Key, _ order: WakeOrder) -> Milliseconds {
        guard let pause = pauses[key.target], pause.registration == order.registration else { return 0 }
        return pause.end
    }

    /// Changes the circuit breaker of a service, and sets a timer for the end of a new pause.
    mutating func change(_ service: Service, _ body: (inout CircuitBreaker) -> Void) {
        guard var breaker = lines[service]?.breaker else { return }
        let before = breaker.pausedUntil
        body(&breaker)
        lines[service]?.breaker = breaker
        if breaker.pausedUntil > before { timers.insert(.service(service), at: breaker.pausedUntil) }
    }

    mutating func change(_ address: Address, _ body: (inout CircuitBreaker) -> Void) {
        guard var breaker = addresses[address] else { return }
        let before = breaker.pausedUntil
        body(&breaker)
        addresses[address] = breaker
        if breaker.pausedUntil > before { timers.insert(.address(address), at: breaker.pausedUntil) }
    }

    /// Returns the time until which nothing is sent to an address. It is in the past if the address is not paused.
    func pauseEnd(_ address: Address?) -> Milliseconds { address.flatMap { addresses[$0]?.pausedUntil } ?? 0 }

    /// Stops the credential of an attempt, and drops its wakes except those in flight.
    mutating func stop(_ attempt: Attempt, _ reason: String, _ now: Milliseconds) -> [WakeReport] {
        let credential = attempt.key.credential
        let isFirst = (stops[credential] ?? 0) <= now
        let end = Milliseconds(clamping: now.count + PushRetry.maximumPause)
        stops[credential] = end
        var reports: [WakeReport] = isFirst ? [.credentialStopped(credential, reason: reason)] : []
        for (key, entry) in entries where key.credential == credential && !entry.isInFlight {
            reports.append(.notSent(entry.order, .credentialStopped(wait: PushRetry.maximumPause)))
            remove(key, now: now)
        }
        return reports
    }

    /// Queues a wake now or at a later time. Drops it if it expires before then.
    mutating func wait(_ key: Key, until time: Milliseconds, now: Milliseconds, isFirst: Bool = false) -> [WakeReport] {
        guard let entry = entries[key] else { return [] }
        let start = max(time, lines[entry.route.service]?.breaker.pausedUntil ?? 0, pauseEnd(entry.route.address))
        guard start < entry.deadline else {
            remove(key, now: now)
            return [.notSent(entry.order, .paused(wait: max(0, start.count - now.count)))]
        }
        lastTicket += 1
        entries[key]?.ticket = lastTicket
        let ticket = Ticket(key: key, number: lastTicket)
        if time > now {
            timers.insert(.ready(ticket), at: time)
            pruneTimers()
        } else {
            line(up: ticket, for: entry.route.service, isFirst: isFirst)
        }
        return []
    }

    /// Queues a wake for its newest order. The attempts and delays of earlier orders do not count for it.
    mutating func startAnew(_ key: Key, now: Milliseconds) -> [WakeReport] {
        guard let entry = entries[key] else { return [] }
        entries[key]?.retry = PushRetry()
        let route = Route(of: entry.order)
        if route != entry.route { move(key, to: route, now: now) }
        return wait(key, until: pauseEnd(key, entry.order), now: now)
    }

    mutating func line(up ticket: Ticket, for service: Service, isFirst: Bool = false) {
        guard let account = entries[ticket.key]?.holder.account else { return }
        lines[service]?.insert(ticket, of: account, isFirst: isFirst)
        if isRunnable.insert(service).inserted { runnable.append(service) }
        // Remove the tickets of ended wakes, so that they do not accumulate.
        lines[service]?.removeVoid { entries[$0.key]?.ticket != $0.number }
    }

    private mutating func pruneTimers() {
        let (entries, lines, addresses) = (entries, lines, addresses)
        timers.prune(liveCount: entries.count + lines.count + addresses.count) {
            switch $0 {
            case .ready(let ticket): entries[ticket.key]?.ticket == ticket.number
            case .service(let service): lines[service] != nil
            case .address(let address): addresses[address] != nil
            }
        }
    }

    mutating func fireTimers(_ now: Milliseconds) {
        while let event = timers.removeFirst(at: now) {
            switch event {
            case .ready(let ticket):
                guard let entry = entries[ticket.key], entry.ticket == ticket.number else { continue }
                line(up: ticket, for: entry.route.service)
            case .service(let service): forget(service, now: now)
            case .address(let address): forget(address, now: now)
            }
        }
        if !stops.isEmpty { stops = stops.filter { $0.value > now } }
        if timers.isEmpty { pauses = pauses.filter { $0.value.end > now } }
    }

    mutating func move(_ key: Key, to route: Route, now: Milliseconds) {
        guard let old = entries[key]?.route else { return }
        entries[key]?.route = route
        join(route)
        leave(old, now: now)
    }
}
