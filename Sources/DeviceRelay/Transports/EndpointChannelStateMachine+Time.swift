// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

// Time, and the network.
extension EndpointChannelStateMachine {
    /// When `handleDeadlines` is to be called next; `nil` if time alone changes nothing.
    package var deadline: Int64? {
        switch state {
        case .stopped, .authorizing: return nil
        case .waiting(let until): return until
        case .dialing(let since): return since + Self.dialingTime
        case .greeting(_, let since): return since + Self.greetingTime
        case .leaving(_, _, let until, _): return until
        case .open(let connection):
            var times = [
                connection.lastReceived + connection.deadInterval,
                max(connection.lastReceived, connection.pinged) + connection.pingInterval,
            ]
            if let probe = connection.probe { times.append(probe) }
            if let oldest = requests.oldest { times.append(oldest + Self.answerTime) }
            if case .due(let due) = connection.refresh { times.append(due) }
            return times.min()
        }
    }

    package mutating func handleDeadlines(now: Int64, random: inout some RandomNumberGenerator) -> [Action] {
        guard let deadline, now >= deadline else { return [] }
        switch state {
        case .stopped, .authorizing: return []
        case .waiting: return begin()
        case .dialing: return retry(.dialFailed(.timedOut), close: 1000, now: now, random: &random)
        case .greeting: return retry(.timedOut, close: 1000, now: now, random: &random)
        case .leaving(_, _, _, let startsAgain): return finishLeaving(startsAgain: startsAgain, close: 1000)
        case .open(var connection):
            if now >= connection.lastReceived + connection.deadInterval || connection.probe.map({ now >= $0 }) ?? false {
                return retry(.silent, close: 1001, now: now, random: &random)
            }
            if let oldest = requests.oldest, now >= oldest + Self.answerTime {
                return retry(.timedOut, close: 1001, now: now, random: &random)
            }
            var actions: [Action] = []
            if now >= max(connection.lastReceived, connection.pinged) + connection.pingInterval {
                connection.pinged = now
                actions.append(.ping(attempt: attempt))
            }
            if case .due(let due) = connection.refresh, now >= due {
                connection.refresh = .awaitingToken
                actions.append(.requestToken(attempt: attempt))
            }
            state = .open(connection)
            return actions
        }
    }

    /// Handles a change of the network: an obstacle may be gone, and an open connection may be dead.
    package mutating func networkChanged(now: Int64, random: inout some RandomNumberGenerator) -> [Action] {
        switch state {
        case .stopped, .authorizing, .leaving:
            return []
        case .waiting:
            state = .waiting(until: backOff.networkChanged(now: now))
            return handleDeadlines(now: now, random: &random)
        case .dialing(let since), .greeting(_, let since):
            // Network changes arrive in bursts, and this attempt may already be the reaction to an earlier one.
            guard now - since >= 1_000 else { return [] }
            let actions = end(.networkChanged, close: 1000, next: .waiting(until: backOff.networkChanged(now: now)))
            return actions + handleDeadlines(now: now, random: &random)
        case .open(var connection):
            guard connection.probe == nil else { return [] }
            connection.probe = now + Self.probeTime
            connection.pinged = now
            state = .open(connection)
            return [.ping(attempt: attempt)]
        }
    }
}
