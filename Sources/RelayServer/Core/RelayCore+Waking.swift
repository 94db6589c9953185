// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

/// Wakes that are due, in all accounts.
extension RelayCore {
    /// The number of registrations per second, so that a backlog neither delays other work nor floods the providers.
    private static let maximumDuePushes = 256
    /// The number of registrations per second that are searched for commands.
    private static let maximumSearchedPushes = 1_024

    /// The search after the start of the relay, for endpoints that were connected when it ended and have not come back, and for wakes that
    /// were lost with it. Also after a failure of the store, for endpoints whose connections ended meanwhile.
    enum WakeSearch: Sendable {
        case waiting(until: Int64)
        case at(EndpointID?)
        case done
    }

    /// Called about once a second.
    func handleDuePushes() {
        let now = now().count
        let begins = node.withLock { node in
            defer { node.isWaking = true }
            return !node.isWaking
        }
        guard begins else { return }
        transact { store in
            try store.duePushes(at: now, limit: Self.maximumDuePushes)
        } then: { [self] result in
            node.withLock { $0.isWaking = false }
            for push in (try? result.get()) ?? [] { change(push.account) { $0.handlePush(of: push.endpoint) } }
        }
        searchUnwoken(now)
    }

    /// A command that was offered just before the relay ended may wait for an endpoint that has not connected since. Nothing is due for it:
    /// it was connected when the command was stored. A wake that no provider had accepted may be lost, and the next one may be far away.
    private func searchUnwoken(_ now: Int64) {
        let position = node.withLock { node -> EndpointID?? in
            switch node.wakeSearch {
            case .waiting(let time) where now >= time:
                node.wakeSearch = .at(nil)
                return .some(nil)
            case .at(let endpoint): return .some(endpoint)
            case .waiting, .done: return nil
            }
        }
        guard let position, !node.withLock({ $0.isSearching }) else { return }
        node.withLock { $0.isSearching = true }
        transact { store in
            try store.unwokenPushes(after: position, at: now, limit: Self.maximumSearchedPushes)
        } then: { [self] result in
            let found = try? result.get()
            node.withLock { node in
                node.isSearching = false
                if let found { node.wakeSearch = found.count == Self.maximumSearchedPushes ? .at(found.last?.key.endpoint) : .done }
            }
            for push in found ?? [] where push.waits { change(push.key.account) { $0.handlePush(of: push.key.endpoint) } }
        }
    }

    /// The operator has changed the credentials of the push services: endpoints that wait are woken by the new ones at once.
    package func credentialsChanged() {
        guard node.withLock({ $0.isStarted }) else { return }
        refreshWakeable()
        let now = now().count
        transact { store in
            try store.restartWakes(at: now)
        } then: { _ in
        }
    }

    /// Tells the accounts what the relay can wake, if that has changed.
    func refreshWakeable() {
        guard let wakeable = wakes?.wakeable else { return }
        let version = node.withLock { node -> Int? in
            guard node.isStarted, node.wakeable != wakeable else { return nil }
            node.wakeable = wakeable
            node.wakeableVersion += 1
            return node.wakeableVersion
        }
        guard let version else { return }
        for shard in shards.all {
            let changed = shard.state.withLock { state -> (RelayRules, [AccountID])? in
                guard let rules = state.rules, rules.version < version else { return nil }
                let new = rules.changed(wakeable, version: version)
                state.rules = new
                return (new, Array(state.accounts.keys))
            }
            guard let (rules, accounts) = changed else { continue }
            for account in accounts { change(account) { $0.update(rules) } }
        }
    }

    func send(_ request: WakeRequest) {
        wakes?.wake(request) { [self] outcome in
            if case .failed(let reason) = outcome {
                logger.info("a wake was not sent", metadata: ["endpoint": "\(request.payload.endpoint.label)", "reason": "\(reason)"])
            }
            refreshWakeable()
            change(request.account) { $0.waked(request, outcome) }
        }
    }
}
