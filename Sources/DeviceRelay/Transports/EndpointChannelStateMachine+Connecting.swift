// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
package import RelayProtocol

/// From the access token to the hello.
extension EndpointChannelStateMachine {
    // MARK: The token

    package mutating func tokenReady(attempt: Int, _ token: Secret<String>, now: Int64) -> [Action] {
        guard attempt == self.attempt else { return [] }
        switch state {
        case .authorizing:
            self.token = token
            state = .dialing(since: now)
            // The configured address comes first, because it is known to lead to the relay from here.
            let candidates: [String?] = [nil] + urls
            return [.dial(attempt: attempt, url: candidates[abs(urlIndex % candidates.count)])]
        case .open(var connection) where connection.refresh == .awaitingToken:
            let ref = takeRef()
            guard let frame = try? EndpointMessage.authRefresh(.init(ref: ref, token: token)).encode(limits: limits) else {
                connection.refresh = .none
                state = .open(connection)
                return [.invalidateToken]
            }
            connection.refresh = .sent(ref)
            state = .open(connection)
            return [transmit(frame)]
        case .stopped, .waiting, .dialing, .greeting, .open, .leaving:
            return []
        }
    }

    /// - Parameter isTransient: Whether a later retry may succeed without an action of the user.
    package mutating func tokenFailed(
        attempt: Int,
        isTransient: Bool,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        guard attempt == self.attempt else { return [] }
        switch state {
        case .authorizing:
            guard isTransient else { return stop(.noAccessToken(isTransient: false)) }
            return retry(.noAccessToken(isTransient: true), now: now, random: &random)
        case .open(var connection) where connection.refresh == .awaitingToken:
            // The channel stays open: the relay ends it when the old token expires.
            connection.refresh = isTransient ? .due(now + Self.refreshPause) : .none
            state = .open(connection)
            return []
        case .stopped, .waiting, .dialing, .greeting, .open, .leaving:
            return []
        }
    }

    // MARK: Dialling and hello

    package mutating func dialFailed(
        attempt: Int,
        _ failure: DialFailure,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        guard attempt == self.attempt, case .dialing = state else { return [] }
        // A server in between says the same to all.
        if case .status(_, let retryAfter?) = failure { backOff.asked(after: retryAfter, spread: retryAfter, now: now, random: &random) }
        return retry(.dialFailed(failure), now: now, random: &random)
    }

    /// The WebSocket is open.
    package mutating func opened(attempt: Int, now: Int64) -> [Action] {
        guard attempt == self.attempt, case .dialing = state else { return [] }
        state = .greeting(.awaitingChallenge, since: now)
        return []
    }

    /// Sends the hello that the owner has created for `makeHello`.
    package mutating func helloReady(
        attempt: Int,
        _ hello: EndpointMessage.Hello,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        guard attempt == self.attempt, case .greeting(.makingHello, let since) = state else { return [] }
        do {
            let frame = try EndpointMessage.hello(hello).encode(limits: limits)
            try limits.check(.controlFrameBytesBeforeWelcome, frame.readableBytes)
            state = .greeting(.awaitingWelcome, since: since)
            return [transmit(frame)]
        } catch let exceeded as LimitExceeded {
            return retry(.malformed(.tooLarge(exceeded)), close: 1000, now: now, random: &random)
        } catch {
            return retry(.malformed(.malformed("the hello cannot be written")), close: 1000, now: now, random: &random)
        }
    }
}
