// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The wakes that are outstanding: which can be sent, which wait for a pause or a retry. Without I/O and clock; times are uptimes.
///
/// It is lost with the process, and nothing with it: wakes are derived from the commands that wait.
struct WakeQueue {
    let limits: Limits
    var entries: [Key: Entry] = [:]
    var lines: [Service: ServiceLine] = [:]
    var addresses: [Address: CircuitBreaker] = [:]
    /// Services with wakes to be sent, in the order they are served.
    var runnable: [Service] = []
    var isRunnable: Set<Service> = []
    var timers = TimerHeap<Event>()
    var shares: WakeShares
    var endpointRates: WakeRates<EndpointID>
    /// By the hash of the registration: many endpoints of one user can have the same one, and FCM counts pushes to it.
    var registrationRates: WakeRates<Int>
    /// Until when nothing is sent to a registration.
    var pauses: [Target: Pause] = [:]
    /// Until when credentials are stopped.
    var stops: [PushCredentialID: Milliseconds] = [:]
    /// How often credentials were replaced.
    var replacements: [PushCredentialID: Int] = [:]
    var lastTicket = 0

    init(_ limits: Limits = .init()) {
        self.limits = limits
        self.shares = WakeShares(limits)
        self.endpointRates = WakeRates(burst: limits.burst, interval: limits.interval)
        self.registrationRates = WakeRates(burst: limits.burst, interval: limits.interval)
    }

    /// When ``start(now:)`` has something to do next, without other events.
    var nextTime: Milliseconds? { timers.first }

    /// How many entries of any kind are kept, the rates of endpoints excepted.
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
            entries[key]?.isConnected = false
            if entry.isConnected { entries[key]?.isFollowed = true }
            guard !entry.isInFlight, entry.order.registration != order.registration else { return [] }
            return startAnew(key, now: now)
        }
        if let end = stops[order.credential] {
            guard end <= now else { return [.notSent(order, .credentialStopped(wait: end.count - now.count))] }
            stops[order.credential] = nil
        }
        let entry = Entry(order, deadline: deadline)
        guard shares.mayAdd(entry.holder) else { return [.notSent(order, .tooManyWait)] }
        let delay = endpointRates.take(endpoint, now: now) ?? registrationRates.take(order.registration.hashValue, now: now)
        if let delay { return [.notSent(order, .tooOften(wait: delay))] }
        entries[key] = entry
        shares.added(entry.holder)
        join(entry.route)
        return wait(key, until: pauseEnd(key, order), now: now)
    }

    /// The endpoint connected: what is on its way is not sent again.
    mutating func connected(_ endpoint: EndpointID, now: Milliseconds) -> [WakeReport] {
        var reports: [WakeReport] = []
        for credential in shares.inUse {
            for urgency in WakePayload.Urgency.allCases {
                let key = Key(endpoint: endpoint, credential: credential, urgency: urgency)
                guard let entry = entries[key] else { continue }
                if entry.isInFlight {
                    entries[key]?.isConnected = true
                    entries[key]?.isFollowed = false
                } else {
                    reports.append(.notSent(entry.order, .connected))
                    remove(key, now: now)
                }
            }
        }
        return reports
    }

    /// The credential was replaced.
    mutating func replaced(_ credential: PushCredentialID) {
        stops[credential] = nil
        replacements[credential, default: 0] += 1
    }

    mutating func remove(_ key: Key, now: Milliseconds) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        shares.removed(entry.holder)
        leave(entry.route, now: now)
    }

    /// One more wake is outstanding.
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
