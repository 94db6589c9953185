// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

// Up to welcome.
extension EndpointChannelStateMachine {
    mutating func greet(
        _ message: RelayMessage,
        _ greeting: Greeting,
        since: Int64,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        switch (message, greeting) {
        case (.challenge(let challenge), .awaitingChallenge):
            if let relay, relay != challenge.relay { return retry(.otherRelay(challenge.relay), close: 1000, now: now, random: &random) }
            guard challenge.versions.contains(Self.version) else { return stop(.versionUnsupported(challenge.versions)) }
            guard let token else { return [] }
            relay = challenge.relay
            state = .greeting(.makingHello, since: since)
            return [.makeHello(attempt: attempt, challenge, token: token)]
        case (.welcome(let welcome), .awaitingWelcome):
            return open(welcome, now: now)
        case (.rejected(let rejected), .awaitingWelcome):
            if let url = rejected.movedTo, moves < Self.maximumMoves { return move(to: url, now: now) }
            return refused(rejected, now: now, random: &random)
        case (.rejected(let rejected), _): return refused(rejected, now: now, random: &random)
        default:
            return breach("type is not allowed before welcome", now: now, random: &random)
        }
    }

    /// Goes on at another node of the relay, with the same token.
    private mutating func move(to url: String, now: Int64) -> [Action] {
        let left = attempt
        attempt += 1
        moves += 1
        state = .dialing(since: now)
        return [.close(attempt: left, code: 1000, reason: ""), .dial(attempt: attempt, url: url)]
    }

    private mutating func refused(
        _ rejected: RelayMessage.Rejected,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        let tokens: [Action] = rejected.code.isAboutToken ? [.invalidateToken] : []
        if !rejected.retry { return tokens + stop(.rejected(rejected)) }
        if let after = rejected.retryAfter { backOff.asked(after: after.count, now: now, random: &random) }
        return tokens + retry(.rejected(rejected), close: 1000, now: now, random: &random)
    }

    mutating func open(_ welcome: RelayMessage.Welcome, now: Int64) -> [Action] {
        limits = welcome.limits
        limits[.controlFrameBytes] = min(limits[.controlFrameBytes], Limits.largestControlFrame)
        urls = Array(welcome.urls.lazy.filter(Self.isURL).prefix(Self.maximumURLs))
        urlIndex = 0
        token = nil
        // The relay's intervals are limited, so that they cause neither constant pings nor a dead connection that stays unnoticed.
        let ping = min(max(welcome.intervals.ping.count, 1_000), 600_000)
        let dead = min(max(welcome.intervals.dead.count, 2 * ping), 1_800_000)
        state = .open(Connection(since: now, lastReceived: now, pinged: now, pingInterval: ping, deadInterval: dead))
        return [.connected(welcome)]
    }
}

extension EndpointChannelStateMachine {
    /// The maximum number of the relay's URLs that are stored.
    static let maximumURLs = 8

    /// One line of visible ASCII, as the journal keeps it.
    fileprivate static func isURL(_ text: String) -> Bool {
        (1...512).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}

extension RelayMessage.Rejected {
    /// Where the endpoint connects instead.
    fileprivate var movedTo: String? {
        guard code == .moved, let url, EndpointChannelStateMachine.isURL(url) else { return nil }
        return url
    }
}

extension ControlErrorCode {
    /// Whether a retry with another token may succeed.
    fileprivate var isAboutToken: Bool {
        switch self {
        case .tokenInvalid, .tokenExpired, .tokenRevoked, .wrongAudience, .wrongIssuer, .clientNotAllowed, .tokenBoundToOtherKey: true
        default: false
        }
    }
}
