// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// An endpoint's side of the control channel, over all its connections. It decides which messages are permitted, matches answers to
/// requests, detects a silent relay, and decides when to reconnect. The owner performs the actions in order.
///
/// ```
/// stopped ──start──▶ authorizing ──▶ dialing ──▶ greeting ──▶ open ──leave──▶ leaving ──▶ stopped
///    ▲                   ▲  │            │           │          │
///    │                   │  └────────────┴─────┬─────┴──────────┘
///    └─ final ───────────┴────── waiting ◀─────┘
/// ```
///
/// `now` is in milliseconds of a monotonic clock that includes sleep. Events with the number of an ended attempt are ignored.
package struct EndpointChannelStateMachine: Hashable, Sendable {
    /// The maximum number of requests that wait for their answers.
    package static let maximumRequests = 1_024
    /// The maximum number of bytes that wait for the network. One message may exceed it.
    package static let maximumOutboundBytes = 1 << 20
    /// The limit is long, because a relay to which all endpoints reconnect at once is slow, and early retries would make it slower.
    static let dialingTime: Int64 = 30_000
    static let greetingTime: Int64 = 30_000
    /// A relay that sends data but leaves a request unanswered for this time counts as stuck.
    static let answerTime: Int64 = 60_000
    static let leavingTime: Int64 = 2_000
    /// The relay's time limit to answer a ping after the network changed.
    static let probeTime: Int64 = 5_000
    /// How often in a row the relay may name another node.
    static let maximumMoves = 3
    /// The pause before a failed token refresh is retried.
    static let refreshPause: Int64 = 10_000
    static let version = ProtocolVersion.current

    enum State: Hashable {
        case stopped(DisconnectReason?)
        case waiting(until: Int64)
        case authorizing
        case dialing(since: Int64)
        case greeting(Greeting, since: Int64)
        case open(Connection)
        case leaving(Connection, ref: RequestRef, until: Int64, startsAgain: Bool)
    }

    enum Greeting: Hashable {
        case awaitingChallenge
        case makingHello
        case awaitingWelcome
    }

    struct Connection: Hashable {
        var since: Int64
        var lastReceived: Int64
        var pinged: Int64
        var pingInterval: Int64
        var deadInterval: Int64
        /// The deadline for any data from the relay after the network changed; `nil` if no probe is pending.
        var probe: Int64?
        var refresh = Refresh.none

        enum Refresh: Hashable {
            case none
            case awaitingToken
            case sent(RequestRef)
            case due(Int64)
        }
    }

    let role: EndpointMessage.Hello.Role
    /// The expected relay. If it is not given, the first relay that answers.
    package internal(set) var relay: RelayID?
    var limits: Limits
    var state = State.stopped(nil)
    /// The number of the latest connection.
    package internal(set) var attempt = 0
    var token: Secret<String>?
    var backOff = ReconnectBackOff()
    var nextRef = RequestRef.first
    var requests = PendingRequests()
    var outboundBytes = 0
    var wasBusy = false
    /// The URLs that the relay named for reconnecting.
    var urls: [String] = []
    var urlIndex = 0
    /// How often the relay has named another node since the last token was asked for.
    var moves = 0

    package init(role: EndpointMessage.Hello.Role, relay: RelayID?, limits: Limits = Limits()) {
        self.role = role
        self.relay = relay
        self.limits = limits
    }

    package var status: Status {
        switch state {
        case .stopped(let reason): .stopped(reason)
        case .waiting(let until): .waiting(until: until)
        case .authorizing, .dialing, .greeting: .connecting
        case .open, .leaving: .connected
        }
    }

    /// Whether requests can be sent. A connection that the endpoint leaves takes none, though it still counts as connected.
    package var isOpen: Bool { if case .open = state { true } else { false } }

    // MARK: Start and end

    /// Starts to connect, also after `leave` or a final failure.
    package mutating func start(now: Int64) -> [Action] {
        switch state {
        case .stopped:
            backOff = ReconnectBackOff()
            return begin()
        case .leaving(let connection, let ref, let until, _):
            state = .leaving(connection, ref: ref, until: until, startsAgain: true)
            return []
        case .waiting, .authorizing, .dialing, .greeting, .open:
            return []
        }
    }

    /// Ends the connection until `start`. A connected host sends the reason, and waits briefly for the relay's answer.
    package mutating func leave(_ reason: EndpointMessage.Leaving.Reason, now: Int64) -> [Action] {
        switch state {
        case .stopped:
            return []
        case .leaving(let connection, let ref, let until, _):
            state = .leaving(connection, ref: ref, until: until, startsAgain: false)
            return []
        case .open(let connection) where role == .host:
            let ref = takeRef()
            guard let frame = try? EndpointMessage.leaving(.init(ref: ref, reason: reason)).encode(limits: limits) else { fallthrough }
            state = .leaving(connection, ref: ref, until: now + Self.leavingTime, startsAgain: false)
            return [transmit(frame)]
        case .open, .waiting, .authorizing, .dialing, .greeting:
            return end(.suspended, close: 1000, next: .stopped(.suspended))
        }
    }

    mutating func begin() -> [Action] {
        attempt += 1
        moves = 0
        state = .authorizing
        return [.requestToken(attempt: attempt)]
    }

    /// Ends the current connection or attempt. All paths use this function.
    mutating func end(_ reason: DisconnectReason, close code: UInt16?, next: State) -> [Action] {
        var actions: [Action] = []
        switch state {
        case .dialing, .greeting, .open, .leaving:
            if let code { actions.append(.close(attempt: attempt, code: code, reason: code == 1000 ? "" : Self.closeReason(reason))) }
        case .stopped, .waiting, .authorizing:
            break
        }
        actions += requests.removeAll().map { .answer($0, .connectionLost) }
        outboundBytes = 0
        wasBusy = false
        token = nil
        state = next
        return actions + [.disconnected(reason)]
    }

    mutating func retry(
        _ reason: DisconnectReason,
        close code: UInt16? = nil,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        let until = backOff.failed(connected: connectedSince, now: now, random: &random)
        if connectedSince == nil { urlIndex &+= 1 }
        return end(reason, close: code, next: .waiting(until: until))
    }

    mutating func stop(_ reason: DisconnectReason, close code: UInt16? = 1000) -> [Action] {
        end(reason, close: code, next: .stopped(reason))
    }

    mutating func finishLeaving(startsAgain: Bool, close code: UInt16?) -> [Action] {
        let actions = end(.suspended, close: code, next: .stopped(.suspended))
        return startsAgain ? actions + begin() : actions
    }

    var connectedSince: Int64? {
        switch state {
        case .open(let connection), .leaving(let connection, _, _, _): connection.since
        case .stopped, .waiting, .authorizing, .dialing, .greeting: nil
        }
    }

    static func closeReason(_ reason: DisconnectReason) -> String {
        if case .malformed(let error) = reason { return error.description }
        return ""
    }

    // MARK: The connection

    /// Records that any data has arrived from the relay, including pings and pongs.
    package mutating func receivedBytes(attempt: Int, now: Int64) {
        guard attempt == self.attempt else { return }
        switch state {
        case .open(var connection):
            connection.lastReceived = now
            connection.probe = nil
            state = .open(connection)
        case .leaving(var connection, let ref, let until, let startsAgain):
            connection.lastReceived = now
            state = .leaving(connection, ref: ref, until: until, startsAgain: startsAgain)
        case .stopped, .waiting, .authorizing, .dialing, .greeting:
            break
        }
    }

    /// Handles a connection that ended without a `close` action.
    package mutating func closed(
        attempt: Int,
        code: UInt16?,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        guard attempt == self.attempt else { return [] }
        switch state {
        case .leaving(_, _, _, let startsAgain): return finishLeaving(startsAgain: startsAgain, close: nil)
        case .dialing, .greeting, .open: return retry(.closed(code: code), now: now, random: &random)
        case .stopped, .waiting, .authorizing: return []
        }
    }

    /// Handles data of the relay that cannot be decoded.
    package mutating func failed(
        attempt: Int,
        _ error: ControlFrameError,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        guard attempt == self.attempt else { return [] }
        switch state {
        case .leaving(_, _, _, let startsAgain): return finishLeaving(startsAgain: startsAgain, close: error.closeCode)
        case .dialing, .greeting, .open: return retry(.malformed(error), close: error.closeCode, now: now, random: &random)
        case .stopped, .waiting, .authorizing: return []
        }
    }

    /// Handles a text frame of the relay.
    package mutating func received(
        attempt: Int,
        _ frame: ByteBuffer,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        guard attempt == self.attempt else { return [] }
        receivedBytes(attempt: attempt, now: now)
        let message: RelayMessage?
        do throws(ControlFrameError) {
            message = try RelayMessage.decode(from: frame, limits: limits, isWelcome: connectedSince != nil)
        } catch {
            return failed(attempt: attempt, error, now: now, random: &random)
        }
        guard let message else { return [] }
        switch state {
        case .greeting(let greeting, let since): return greet(message, greeting, since: since, now: now, random: &random)
        case .open(let connection): return take(message, connection, now: now, random: &random)
        case .leaving(_, let ref, _, let startsAgain):
            switch message {
            case .ok, .failure: return message.ref == ref ? finishLeaving(startsAgain: startsAgain, close: 1000) : answer(message)
            case .commandSettled: return answer(message)
            case .command, .tunnelOffer: return []
            default: return [.event(message)]
            }
        case .stopped, .waiting, .authorizing, .dialing: return []
        }
    }

    mutating func breach(_ text: String, now: Int64, random: inout some RandomNumberGenerator) -> [Action] {
        failed(attempt: attempt, .malformed(text), now: now, random: &random)
    }
}
