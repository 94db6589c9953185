// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Synchronization

/// What the API gives to one client at most, so that it leaves something to others.
final class APIBounds: Sendable {
    /// The connections of a listener.
    static let connections = 64
    /// Streams of events: of a listener, and of one token.
    static let streams = 16
    static let streamsOfToken = 8
    /// Calls with a message above `APIExchange.largestBody` at the same time.
    static let largeCalls = 2
    /// How long a client may take for the head of a request.
    static let headPatience = Duration.seconds(10)
    /// How long a connection may be idle.
    static let idlePatience = Duration.seconds(60)

    /// What a token may do so often in a minute.
    enum Action: Hashable, Sendable {
        case launch, call

        var perMinute: Int {
            switch self {
            case .launch: 60
            case .call: 600
            }
        }
    }

    private struct Use: Hashable {
        var principal: String
        var action: Action
    }

    private struct Minute {
        var end: ContinuousClock.Instant
        var count = 0
    }

    private struct State {
        var minutes: [Use: Minute] = [:]
        var streams: [String: Int] = [:]
    }

    private let state = Mutex(State())
    private let largeCalls = Slots(largeCalls)

    /// Counts an action of a token.
    /// - Throws: `APIRefusal`: `limitExceeded` with the time until the next minute.
    func admit(_ action: Action, _ principal: Principal, at now: ContinuousClock.Instant = .now) throws {
        guard case .token = principal else { return }
        let left = state.withLock { state -> Duration? in
            // There are few tokens, so the minutes that are over are few, too.
            state.minutes = state.minutes.filter { $0.value.end > now }
            let use = Use(principal: principal.id, action: action)
            var minute = state.minutes[use] ?? Minute(end: now + .seconds(60))
            guard minute.count < action.perMinute else { return now.duration(to: minute.end) }
            minute.count += 1
            state.minutes[use] = minute
            return nil
        }
        guard let left else { return }
        throw Self.refusal("a token may do this \(action.perMinute) times a minute", retryAfter: Int(left.components.seconds) + 1)
    }

    /// Counts a stream of events, until `streamEnded`.
    /// - Throws: `APIRefusal`: `limitExceeded`.
    func beginStream(_ principal: Principal) throws {
        let most = if case .token = principal { Self.streamsOfToken } else { Self.streams }
        let isThere = state.withLock { state in
            let all = state.streams.values.reduce(0, +)
            guard all < Self.streams, state.streams[principal.id, default: 0] < most else { return false }
            state.streams[principal.id, default: 0] += 1
            return true
        }
        guard isThere else {
            throw Self.refusal(
                "\(Self.streams) streams of events are open here at most, and \(Self.streamsOfToken) of one token",
                retryAfter: 15
            )
        }
    }

    func streamEnded(_ principal: Principal) {
        state.withLock { state in
            let left = state.streams[principal.id, default: 1] - 1
            state.streams[principal.id] = left > 0 ? left : nil
        }
    }

    /// A place for a call with a large message, as long as it is referenced.
    /// - Throws: `APIRefusal`: `limitExceeded`.
    func largeCall() throws -> Slots.Slot {
        guard let slot = largeCalls.take() else {
            throw Self.refusal("\(Self.largeCalls) calls with a large message run here at most", retryAfter: 1)
        }
        return slot
    }

    private static func refusal(_ message: String, retryAfter: Int) -> APIRefusal {
        APIRefusal(429, AgentError("limitExceeded", message, .failed), retryAfter: retryAfter)
    }
}
