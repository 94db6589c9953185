// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayCollections
import RelayProtocol

/// The outstanding wakes: those that can be sent, and those that wait for a pause or a retry. It does no I/O and reads no clock. All times
/// are uptimes.
///
/// The queue is in memory only. A restart loses nothing, because wakes are derived from the pending commands.
struct WakeQueue {
    let limits: Limits
    var entries: [Key: Entry] = [:]
    var lines: [Service: ServiceLine] = [:]
    var addresses: [Address: CircuitBreaker] = [:]
    /// The services with queued wakes, in the order in which they are served.
    var runnable: [Service] = []
    var isRunnable: Set<Service> = []
    var timers = TimerHeap<Milliseconds, Event>()
    var shares: WakeShares
    var endpointRates = KeyedLimiter<EndpointID>()
    /// The rates by the hash of the registration. Many endpoints of one account can have the same registration, and FCM counts the pushes
    /// to it.
    var registrationRates = KeyedLimiter<Int>()
    /// The paused registrations, with the ends of their pauses.
    var pauses: [Target: Pause] = [:]
    /// The time until which each stopped credential is not used.
    var stops: [PushCredentialID: Milliseconds] = [:]
    /// The number of replacements of each credential.
    var replacements: [PushCredentialID: Int] = [:]
    var lastTicket = 0

    init(_ limits: Limits = .init()) {
        self.limits = limits
        self.shares = WakeShares(limits)
    }

    /// The time at which ``start(now:)`` must be called next if nothing else happens.
    var nextTime: Milliseconds? { timers.first }

    /// The number of entries of all kinds, without the rates and the numbers of replacements.
    var size: Int {
        entries.count + lines.count + addresses.count + runnable.count + timers.count + pauses.count + stops.count
            + (shares.isEmpty ? 0 : 1) + lines.values.reduce(0) { $0 + $1.readyCount }
    }

    mutating func add(_ order: WakeOrder, deadline: Milliseconds, now: Milliseconds) -> [WakeReport] {
        let endpoint = order.wake.payload.endpoint
        let key = Key(endpoint: endpoint, credential: order.credential, urgency: order.wake.payload.urgency)
        if deadline <= now, entries[key] == nil { return [.notSent(order, .expired)] }
        if let entry = entries[key] {
            entries[key]?.order = order
            entries[key]?.deadline = max(deadline, entry.deadline)
            entries[key]?.unneeded = nil
            if entry.unneeded != nil { entries[key]?.isFollowed = true }
            guard !entry.isInFlight, entry.order.registration != order.registration else { return [] }
            return startAnew(key, now: now)
        }
        if let end = stops[order.credential] {
            guard end <= now else { return [.notSent(order, .credentialStopped(wait: end.count - now.count))] }
            stops[order.credential] = nil
        }
        let entry = Entry(order, deadline: deadline)
        guard shares.mayAdd(entry.holder) else { return [.notSent(order, .tooManyWait)] }
        let delay =
            endpointRates.take(endpoint, limits.rate, now: now)
            ?? registrationRates.take(order.registration.hashValue, limits.rate, now: now)
        if let delay { return [.notSent(order, .tooOften(wait: delay.count))] }
        entries[key] = entry
        shares.added(entry.holder)
        join(entry.route)
        return wait(key, until: pauseEnd(key, order), now: now)
    }

    /// Drops the wakes of an endpoint that are not needed. Wakes in flight are not retried.
    mutating func drop(_ endpoint: EndpointID, _ why: WakeReport.NotSent, now: Milliseconds) -> [WakeReport] {
        var reports: [WakeReport] = []
        for credential in shares.inUse {
            for urgency in WakePayload.Urgency.allCases {
                let key = Key(endpoint: endpoint, credential: credential, urgency: urgency)
                guard let entry = entries[key] else { continue }
                if entry.isInFlight {
                    entries[key]?.unneeded = why
                    entries[key]?.isFollowed = false
                } else {
                    reports.append(.notSent(entry.order, why))
                    remove(key, now: now)
                }
            }
        }
        return reports
    }

    /// Records that a credential was replaced. It is no longer stopped.
    mutating func replaced(_ credential: PushCredentialID) {
        stops[credential] = nil
        replacements[credential, default: 0] += 1
    }

    mutating func remove(_ key: Key, now: Milliseconds) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        shares.removed(entry.holder)
        leave(entry.route, now: now)
    }

    /// Counts one more outstanding wake on a route.
    mutating func join(_ route: Route) {
        lines[route.service, default: ServiceLine(limit: limits.perService)].breaker.outstanding += 1
        if let address = route.address {
            addresses[address, default: CircuitBreaker(.registration, limit: limits.perAccount)].outstanding += 1
        }
    }

    mutating func leave(_ route: Route, now: Milliseconds) {
        lines[route.service]?.breaker.outstanding -= 1
        forget(route.service, now: now)
        if let address = route.address {
            addresses[address]?.outstanding -= 1
            forget(address, now: now)
        }
    }

    mutating func forget(_ service: Service, now: Milliseconds) {
        if lines[service]?.breaker.isIdle(at: now) == true { lines[service] = nil }
    }

    mutating func forget(_ address: Address, now: Milliseconds) {
        if addresses[address]?.isIdle(at: now) == true { addresses[address] = nil }
    }
}
