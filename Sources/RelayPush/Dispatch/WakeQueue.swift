// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The wakes that are outstanding: which can be sent, which wait for a pause or a retry. Without I/O and clock; times are uptimes.
///
/// It is lost with the process, and nothing with it: wakes are derived from the commands that wait.
struct WakeQueue {
    struct Attempt {
        let key: Key
        let order: WakeOrder
        fileprivate let service: Service
        fileprivate let period: Int
        fileprivate let replacements: Int
    }

    private struct Entry {
        var order: WakeOrder
        var deadline: Milliseconds
        var retry = PushRetry()
        var service: Service
        var isInFlight = false
        var isConnected = false
        var ticket = 0
    }

    private struct Pause {
        let end: Milliseconds
        /// Another registration of the same app is not paused.
        let registration: PushRegistration
    }

    private enum Event {
        case ready(Ticket)
        case service(Service)
    }

    private let limits: Limits
    private var entries: [Key: Entry] = [:]
    private var lines: [Service: ServiceLine] = [:]
    /// Services with wakes to be sent, in the order they are served.
    private var runnable: [Service] = []
    private var isRunnable: Set<Service> = []
    private var timers = TimerHeap<Event>()
    private var outstanding: [PushCredentialID: Int] = [:]
    private var inFlight: [PushCredentialID: Int] = [:]
    /// Until when nothing is sent to a registration.
    private var pauses: [Target: Pause] = [:]
    /// Until when credentials are stopped.
    private var stops: [PushCredentialID: Milliseconds] = [:]
    /// How often credentials were replaced.
    private var replacements: [PushCredentialID: Int] = [:]
    private var lastTicket = 0

    init(_ limits: Limits = .init()) { self.limits = limits }

    /// When ``start(now:)`` has something to do next, without other events.
    var nextTime: Milliseconds? { timers.first }

    /// How many entries of any kind are kept.
    var size: Int {
        entries.count + lines.count + runnable.count + timers.count + pauses.count + stops.count
            + lines.values.reduce(0) { $0 + $1.readyCount }
    }

    // MARK: Orders

    mutating func add(_ order: WakeOrder, deadline: Milliseconds, now: Milliseconds) -> [WakeReport] {
        let endpoint = order.wake.payload.endpoint
        let key = Key(endpoint: endpoint, credential: order.credential, urgency: order.wake.payload.urgency)
        if deadline <= now, entries[key] == nil { return [.notSent(order, .expired)] }
        if let entry = entries[key] {
            entries[key]?.order = order
            entries[key]?.deadline = max(deadline, entry.deadline)
            entries[key]?.isConnected = false
            guard !entry.isInFlight, entry.order.registration != order.registration else { return [] }
            // What the old registration waits for does not hold for the new one.
            entries[key]?.retry = PushRetry()
            return wait(key, until: pauseEnd(key, order), now: now)
        }
        if let end = stops[order.credential] {
            guard end <= now else { return [.notSent(order, .credentialStopped)] }
            stops[order.credential] = nil
        }
        guard outstanding[order.credential, default: 0] < limits.outstanding else { return [.notSent(order, .tooManyWait)] }
        let service = Service(of: order)
        entries[key] = Entry(order: order, deadline: deadline, service: service)
        outstanding[order.credential, default: 0] += 1
        lines[service, default: ServiceLine(limit: limits.perService)].outstanding += 1
        return wait(key, until: pauseEnd(key, order), now: now)
    }

    /// The endpoint connected: what is on its way is not sent again.
    mutating func connected(_ endpoint: EndpointID, now: Milliseconds) -> [WakeReport] {
        var reports: [WakeReport] = []
        for credential in Array(outstanding.keys) {
            for urgency in WakePayload.Urgency.allCases {
                let key = Key(endpoint: endpoint, credential: credential, urgency: urgency)
                guard let entry = entries[key] else { continue }
                if entry.isInFlight {
                    entries[key]?.isConnected = true
                } else {
                    reports.append(.notSent(entry.order, .connected))
                    remove(key, now: now)
                }
            }
        }
        return reports
    }

    /// The credentials were replaced.
    mutating func replaced(_ credential: PushCredentialID) {
        stops[credential] = nil
        replacements[credential, default: 0] += 1
    }

    // MARK: Sending

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
            guard lines[service]?.hasReady == true, let period = lines[service]?.period else {
                isRunnable.remove(service)
                continue
            }
            runnable.append(service)
            guard lines[service]?.canSend(at: now) == true, inFlight[service.credential, default: 0] < limits.perCredential else {
                refused += 1
                continue
            }
            guard let ticket = lines[service]?.removeFirst(), let entry = entries[ticket.key], entry.ticket == ticket.number,
                !entry.isInFlight
            else { continue }
            guard entry.deadline > now else {
                reports.append(.notSent(entry.order, .expired))
                remove(ticket.key, now: now)
                continue
            }
            // An order that came later may lead elsewhere.
            let current = Service(of: entry.order)
            guard current == service else {
                move(ticket.key, to: current, now: now)
                reports += wait(ticket.key, until: now, now: now)
                continue
            }
            let end = pauseEnd(ticket.key, entry.order)
            guard end <= now else {
                reports += wait(ticket.key, until: end, now: now)
                continue
            }
            refused = 0
            entries[ticket.key]?.isInFlight = true
            lines[service]?.started()
            inFlight[service.credential, default: 0] += 1
            let replacements = replacements[service.credential, default: 0]
            attempts.append(
                Attempt(key: ticket.key, order: entry.order, service: service, period: period, replacements: replacements)
            )
        }
        return (attempts, reports)
    }

    mutating func finished(
        _ attempt: Attempt,
        _ outcome: PushOutcome,
        now: Milliseconds,
        random: (_ bound: Int64) -> Int64
    ) -> [WakeReport] {
        let key = attempt.key
        let credential = key.credential
        inFlight[credential, default: 1] -= 1
        if inFlight[credential] == 0 { inFlight[credential] = nil }
        change(attempt.service) { $0.finished(outcome, period: attempt.period, now: now, random: random) }
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

    private mutating func settle(_ entry: Entry, _ attempt: Attempt, _ step: PushRetry.Step, _ now: Milliseconds) -> [WakeReport] {
        let key = attempt.key
        let order = attempt.order
        func end(_ why: WakeReport.NotSent) -> [WakeReport] {
            remove(key, now: now)
            return [.notSent(order, why)]
        }
        // The service's pauses hold for all, whatever becomes of this wake.
        if case .pause(let scope, let time, _) = step { pause(scope, attempt, until: Milliseconds(clamping: now.count + time), now) }
        if case .stopCredential(let reason) = step {
            // It was sent with credentials that were replaced meanwhile.
            guard attempt.replacements == replacements[key.credential, default: 0] else { return wait(key, until: now, now: now) }
            return stop(attempt, reason, now)
        }
        switch step {
        case .finish: remove(key, now: now)
        case .removeRegistration(let since):
            guard entry.order.registration == order.registration else {
                // Meanwhile the device registered anew.
                entries[key]?.retry = PushRetry()
                return [.registrationGone(order, since: since)] + wait(key, until: now, now: now)
            }
            remove(key, now: now)
            return [.registrationGone(order, since: since)]
        case .reject(let reason): return end(.rejected(reason: reason))
        case .leave(let reason): return end(.failed(reason: reason))
        case .suspendRegistration(let reason, let time):
            pause(.registration, attempt, until: Milliseconds(clamping: now.count + time), now)
            return end(.mismatched(reason: reason))
        case .renewCredential, .retry, .pause:
            if entry.isConnected { return end(.connected) }
            if stops[key.credential].map({ $0 > now }) == true { return end(.credentialStopped) }
            switch step {
            case .retry(let time): return wait(key, until: Milliseconds(clamping: now.count + time), now: now)
            case .pause(_, _, isLast: true): return end(.paused)
            case .pause(.registration, let time, _): return wait(key, until: Milliseconds(clamping: now.count + time), now: now)
            // The others wait until it is known whether the new token is taken.
            case .renewCredential: return wait(key, until: now, now: now, isFirst: true)
            default: return wait(key, until: now, now: now)
            }
        case .stopCredential: break
        }
        return []
    }

    // MARK: Pauses

    private mutating func pause(_ scope: PushScope, _ attempt: Attempt, until end: Milliseconds, _ now: Milliseconds) {
        switch scope {
        case .credential:
            change(attempt.service) { $0.pause(until: end) }
        case .registration:
            // A pause may be forgotten rather than kept without bound.
            if pauses.count >= limits.outstanding { pauses = pauses.filter { $0.value.end > now } }
            guard pauses.count < limits.outstanding else { return }
            pauses[attempt.key.target] = Pause(end: end, registration: attempt.order.registration)
        }
    }

    /// Until when nothing is sent to an order's registration; in the past if it is not paused.
    private func pauseEnd(_ key: Key, _ order: WakeOrder) -> Milliseconds {
        guard let pause = pauses[key.target], pause.registration == order.registration else { return 0 }
        return pause.end
    }

    /// Changes a service's state, and remembers to go on after a pause.
    private mutating func change(_ service: Service, _ body: (inout ServiceLine) -> Void) {
        guard var line = lines[service] else { return }
        let before = line.pausedUntil
        body(&line)
        lines[service] = line
        if line.pausedUntil > before { timers.insert(.service(service), at: line.pausedUntil) }
    }

    /// Drops all wakes of the credential but those on their way.
    private mutating func stop(_ attempt: Attempt, _ reason: String, _ now: Milliseconds) -> [WakeReport] {
        let credential = attempt.key.credential
        let isFirst = (stops[credential] ?? 0) <= now
        let end = Milliseconds(clamping: now.count + PushRetry.maximumPause)
        stops[credential] = end
        var reports: [WakeReport] = isFirst ? [.credentialStopped(credential, reason: reason)] : []
        for (key, entry) in entries where key.credential == credential && !entry.isInFlight {
            reports.append(.notSent(entry.order, .credentialStopped))
            remove(key, now: now)
        }
        return reports
    }

    /// Puts a wake in line now, or later.
    private mutating func wait(_ key: Key, until time: Milliseconds, now: Milliseconds, isFirst: Bool = false) -> [WakeReport] {
        guard let entry = entries[key] else { return [] }
        guard max(time, lines[entry.service]?.pausedUntil ?? 0) < entry.deadline else {
            remove(key, now: now)
            return [.notSent(entry.order, .paused)]
        }
        lastTicket += 1
        entries[key]?.ticket = lastTicket
        let ticket = Ticket(key: key, number: lastTicket)
        if time > now {
            timers.insert(.ready(ticket), at: time)
            if timers.count > 2 * (entries.count + lines.count) + 1_024 { removeVoidTimers() }
        } else {
            line(up: ticket, for: entry.service, isFirst: isFirst)
        }
        return []
    }

    private mutating func line(up ticket: Ticket, for service: Service, isFirst: Bool = false) {
        lines[service]?.insert(ticket, isFirst: isFirst)
        if isRunnable.insert(service).inserted { runnable.append(service) }
        // Tickets of wakes that are gone do not pile up.
        lines[service]?.removeVoid { entries[$0.key]?.ticket != $0.number }
    }

    private mutating func removeVoidTimers() {
        timers.removeAll {
            switch $0 {
            case .ready(let ticket): entries[ticket.key]?.ticket != ticket.number
            case .service(let service): lines[service] == nil
            }
        }
    }

    private mutating func fireTimers(_ now: Milliseconds) {
        while let event = timers.removeFirst(at: now) {
            switch event {
            case .ready(let ticket):
                guard let entry = entries[ticket.key], entry.ticket == ticket.number else { continue }
                line(up: ticket, for: entry.service)
            case .service(let service): forget(service, now: now)
            }
        }
        if !stops.isEmpty { stops = stops.filter { $0.value > now } }
        if timers.isEmpty { pauses = pauses.filter { $0.value.end > now } }
    }

    private mutating func move(_ key: Key, to service: Service, now: Milliseconds) {
        guard let old = entries[key]?.service else { return }
        entries[key]?.service = service
        lines[old]?.outstanding -= 1
        lines[service, default: ServiceLine(limit: limits.perService)].outstanding += 1
        forget(old, now: now)
    }

    private mutating func remove(_ key: Key, now: Milliseconds) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        outstanding[key.credential, default: 1] -= 1
        if outstanding[key.credential] == 0 { outstanding[key.credential] = nil }
        lines[entry.service]?.outstanding -= 1
        forget(entry.service, now: now)
    }

    private mutating func forget(_ service: Service, now: Milliseconds) {
        if lines[service]?.isIdle(at: now) == true { lines[service] = nil }
    }
}
