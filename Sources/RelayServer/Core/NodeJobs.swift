// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The relay's own jobs over all accounts: which of them begin now. Without I/O and clock; times are milliseconds since 1970.
struct NodeJobs: Sendable {
    enum Job: Hashable, Sendable {
        /// Find commands whose deadlines have passed, and call `commandsRead`. Pass them to their accounts, and call `accountEnded` for each.
        case endCommands
        /// End the logins of revoked endpoints, then call `loginsEnded`.
        case endLogins
        /// Pass due push registrations to their accounts, and call `pushesRead` once they are read.
        case handlePushes
        /// Pass endpoints that may have to be woken to their accounts, and call `searched` or `searchFailed` once they are read.
        case searchUnwoken(after: EndpointID?)
        /// Tell the accounts what the relay can wake.
        case tell(WakeableApps, version: Int)
        /// Serve the requests that others have left, then call `requestsServed`.
        case serveRequests
        /// Give back the accounts with nothing in memory, so that any node can serve them.
        case giveBackIdle
        /// Write something, and call `storeWorks` if that succeeds.
        case probeStore
    }

    private enum CommandsPass: Sendable {
        /// - next: when the store has something to do next; `nil` if that is not known.
        case idle(next: Int64?)
        case reading
        /// - accounts: how many have not ended their commands.
        /// - mayBeMore: whether more commands are probably due.
        case ending(accounts: Int, mayBeMore: Bool)
    }

    private enum LoginsPass: Sendable {
        case idle
        /// - again: more endpoints were revoked meanwhile.
        case running(again: Bool)
    }

    /// The search after the start of the relay, for endpoints that were connected when it ended and have not come back, and for wakes that
    /// were lost with it. Also after a failure of the store, for endpoints whose connections ended meanwhile.
    private enum WakeSearch: Sendable {
        case waiting(until: Int64)
        /// The next step is due, after this endpoint.
        case due(after: EndpointID?)
        /// A step is being read.
        /// - restarts: the store has failed and recovered meanwhile, so the search begins again after the step.
        case reading(after: EndpointID?, restarts: Bool)
        case done
    }

    /// How often accounts are given back.
    private static let idleInterval: Int64 = 60_000
    /// How often logins are looked for that could not be ended.
    private static let loginsInterval: Int64 = 60_000

    /// Whether there are logins to end.
    private let hasLogins: Bool
    /// Whether the relay sends wakes.
    private let hasWakes: Bool
    /// Whether there may be other nodes.
    private let hasNodes: Bool
    private(set) var isStarted = false
    private var isStopping = false
    private var isStoreFailing = false
    private var commandsPass = CommandsPass.idle(next: nil)
    private var loginsPass = LoginsPass.idle
    private var nextLoginsPass: Int64 = 0
    private var isReadingPushes = false
    private var isServingRequests = false
    private var nextIdlePass: Int64 = 0
    private var wakeSearch = WakeSearch.done
    private var wakeable = WakeableApps()
    /// How often that has changed.
    private var version = 0

    init(hasLogins: Bool, hasWakes: Bool, hasNodes: Bool = false) {
        self.hasLogins = hasLogins
        self.hasWakes = hasWakes
        self.hasNodes = hasNodes
    }

    var isEndingLogins: Bool { if case .running = loginsPass { true } else { false } }

    mutating func start(_ wakeable: WakeableApps, at now: Int64) -> [Job] {
        isStarted = true
        self.wakeable = wakeable
        if hasWakes { wakeSearch = .waiting(until: now + Presences.startingPeriod) }
        return endLogins(at: now)
    }

    mutating func stop() { isStopping = true }

    /// When the next pass has something to do, if nothing happens before; `nil` if that is not known. Several nodes look each second for
    /// what others have left.
    var nextDue: Int64? {
        guard isStarted, !hasNodes, !isStoreFailing, !isReadingPushes, case .idle(let next?) = commandsPass, case .idle = loginsPass else {
            return nil
        }
        let logins = hasLogins ? nextLoginsPass : .max
        return switch wakeSearch {
        case .waiting(let time): min(next, logins, time)
        case .due, .reading: nil
        case .done: min(next, logins)
        }
    }

    /// Called when something may be due.
    mutating func tick(_ wakeable: WakeableApps, at now: Int64) -> [Job] {
        guard isStarted else { return [] }
        var jobs: [Job] = []
        if case .idle = commandsPass { jobs += endCommands() }
        if !isStopping, now >= nextLoginsPass { jobs += endLogins(at: now) }
        if !isReadingPushes {
            isReadingPushes = true
            jobs.append(.handlePushes)
            jobs += search(at: now)
        }
        jobs += changed(wakeable)
        if isStoreFailing, !isStopping { jobs.append(.probeStore) }
        guard hasNodes, !isStopping else { return jobs }
        if !isServingRequests {
            isServingRequests = true
            jobs.append(.serveRequests)
        }
        if now >= nextIdlePass {
            nextIdlePass = now + Self.idleInterval
            jobs.append(.giveBackIdle)
        }
        return jobs
    }

    // MARK: Nodes

    mutating func requestsServed() { isServingRequests = false }

    /// Another node serves its accounts no longer. Its endpoints have some time to come back, then those that have not may have to be woken.
    mutating func nodeLeft(at now: Int64) {
        guard isStarted, hasWakes else { return }
        if case .reading(let position, _) = wakeSearch {
            wakeSearch = .reading(after: position, restarts: true)
        } else {
            wakeSearch = .waiting(until: now + Presences.startingPeriod)
        }
    }

    // MARK: Commands

    private mutating func endCommands() -> [Job] {
        commandsPass = .reading
        return [.endCommands]
    }

    /// - Parameters:
    ///   - accounts: how many accounts have commands that are due.
    ///   - mayBeMore: whether more commands are probably due.
    ///   - next: when the store has something to do next, if it has nothing now; `nil` if that is not known.
    mutating func commandsRead(of accounts: Int, mayBeMore: Bool, next: Int64?) {
        commandsPass = accounts == 0 ? .idle(next: next) : .ending(accounts: accounts, mayBeMore: mayBeMore)
    }

    /// - Parameter isStored: commands that could not be stored are retried later.
    mutating func accountEnded(isStored: Bool) -> [Job] {
        guard case .ending(let accounts, let before) = commandsPass else { return [] }
        let mayBeMore = before && isStored
        commandsPass = accounts == 1 ? .idle(next: nil) : .ending(accounts: accounts - 1, mayBeMore: mayBeMore)
        return accounts == 1 && mayBeMore ? endCommands() : []
    }

    // MARK: Logins

    /// Endpoints were revoked, or it is time to retry.
    mutating func endLogins(at now: Int64) -> [Job] {
        guard hasLogins else { return [] }
        nextLoginsPass = now + Self.loginsInterval
        let isRunning = isEndingLogins
        loginsPass = .running(again: isRunning)
        return isRunning ? [] : [.endLogins]
    }

    mutating func loginsEnded(at now: Int64) -> [Job] {
        let before = loginsPass
        loginsPass = .idle
        guard case .running(again: true) = before else { return [] }
        return endLogins(at: now)
    }

    // MARK: Wakes

    mutating func pushesRead() { isReadingPushes = false }

    private mutating func search(at now: Int64) -> [Job] {
        if case .waiting(let time) = wakeSearch, now >= time { wakeSearch = .due(after: nil) }
        guard case .due(let position) = wakeSearch else { return [] }
        wakeSearch = .reading(after: position, restarts: false)
        return [.searchUnwoken(after: position)]
    }

    /// A step of the search has failed, and is repeated.
    mutating func searchFailed() {
        guard case .reading(let position, let restarts) = wakeSearch else { return }
        wakeSearch = .due(after: restarts ? nil : position)
    }

    /// A step of the search is done.
    /// - Parameter last: after which endpoint it goes on; `nil` if it is complete.
    mutating func searched(to last: EndpointID?) {
        guard case .reading(_, let restarts) = wakeSearch else { return }
        wakeSearch = restarts ? .due(after: nil) : last.map { .due(after: $0) } ?? .done
    }

    /// What the relay can wake may have changed.
    mutating func changed(_ wakeable: WakeableApps) -> [Job] {
        guard isStarted, hasWakes, self.wakeable != wakeable else { return [] }
        self.wakeable = wakeable
        version += 1
        return [.tell(wakeable, version: version)]
    }

    // MARK: The store

    /// - Returns: whether this is the first failure.
    mutating func storeFailed() -> Bool {
        defer { isStoreFailing = true }
        return !isStoreFailing
    }

    /// - Returns: whether the store had failed before.
    mutating func storeWorks() -> Bool {
        guard isStoreFailing else { return false }
        isStoreFailing = false
        // The loss of a connection may not have been stored, and with it the time of a wake.
        guard hasWakes else { return true }
        if case .reading(let position, _) = wakeSearch {
            wakeSearch = .reading(after: position, restarts: true)
        } else {
            wakeSearch = .due(after: nil)
        }
        return true
    }
}
