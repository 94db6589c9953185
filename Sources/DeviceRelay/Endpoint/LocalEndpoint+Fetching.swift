// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Connections of a suspended endpoint, for what waits at the relay.
extension LocalEndpoint {
    /// The progress of fetching. A request to drain the mailbox is answered when the endpoint has stored all commands; they are done when
    /// the inbox is idle after that.
    struct Fetching: Hashable, Sendable {
        enum Answer: Hashable, Sendable {
            case served, refused, connectionLost
        }

        /// The number of answered requests.
        var answers = 0
        var lastAnswer: Answer?
        var isInboxIdle = true
    }

    /// How long a polling endpoint stays connected at most.
    private static let longestPoll: Duration = .seconds(120)

    /// Disconnects until `resume`. An endpoint that polls connects by itself in between.
    func suspend() async {
        life.suspend()
        await leave(.suspended)
        schedulePoll()
    }

    func resume() async {
        life.resume()
        await start()
    }

    /// Fetches and handles all commands that wait. It connects a suspended endpoint, and disconnects it again.
    /// - Returns: Whether nothing waits any more.
    func fetch(until end: ContinuousClock.Instant) async -> Bool {
        // Nothing waits anywhere without a relay.
        guard !endpoint.isAnonymous else { return true }
        if life.fetchBegins() { await start() }
        let isDone = await drain(until: end)
        if life.fetchEnds() {
            await leave(.suspended)
            schedulePoll()
        }
        return isDone
    }

    private func drain(until end: ContinuousClock.Instant) async -> Bool {
        while ContinuousClock.now < end, !Task.isCancelled {
            func left() -> Duration { max(.zero, end - ContinuousClock.now) }
            // An earlier connection may still be closing.
            let link = await link.first(within: left()) { $0.takesRequests || ($0.state.phase == .stopped && $0.state.problem != nil) }
            guard link?.takesRequests ?? false else { return false }
            let answers = fetching.value.answers
            requestDrain()
            guard let answer = await fetching.first(within: left(), where: { $0.answers > answers }) else { return false }
            switch answer.lastAnswer {
            case .served: return await fetching.first(within: left()) { $0.isInboxIdle } != nil
            case .refused, nil: return false
            // The next connection begins anew.
            case .connectionLost: continue
            }
        }
        return false
    }

    /// Connects again after the interval, if the endpoint polls and is still suspended then.
    private func schedulePoll() {
        poll?.cancel()
        guard life.mayPoll, let interval = pollingInterval else { return }
        poll = endpointLoop.after(interval) { [weak self] in
            self?.assumeIsolated { endpoint in
                guard endpoint.life.mayPoll else { return }
                endpoint.endpointLoop.spawn(endpoint) { _ = await $0.fetch(until: .now + Self.longestPoll) }
            }
        }
    }
}
