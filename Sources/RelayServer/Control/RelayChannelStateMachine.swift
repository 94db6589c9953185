// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// The life of one control channel, without I/O and clock: greeting, requests, liveness, and the end of the token.
package struct RelayChannelStateMachine {
    package enum Action: Hashable, Sendable {
        case send(RelayMessage)
        case ping
        /// Verify the token; the answer is `tokenChecked`.
        case checkToken(Secret<String>, endpointKey: SigningPublicKey)
        /// Connect to the core; the answer is `coreAnswered`.
        case connect(ProvedHello)
        /// The endpoint is authenticated: larger frames are allowed, and it no longer counts as unauthenticated.
        case welcomed
        case forward(EndpointMessage, ChannelID)
        /// Give the channel's account this identity, which the endpoint has proved by a fresh token.
        case link(Identity, RequestRef, ChannelID)
        /// Call `loginRevoked` when one of these logins is revoked, and stop following any others.
        case follow([Login])
        case disconnected(ChannelID, isSilent: Bool)
        /// The last action: send a close frame, then close the connection.
        case close(code: UInt16, reason: String)
    }

    /// The current time on a monotonic clock and on the wall clock (since 1970).
    package struct Moment: Hashable, Sendable {
        package var uptime: Milliseconds
        package var time: Milliseconds

        package init(uptime: Milliseconds, time: Milliseconds) {
            self.uptime = uptime
            self.time = time
        }
    }

    /// Settings that all channels of a relay share.
    package struct Settings: Sendable {
        package var relay: RelayID
        package var limits: Limits
        package var intervals: RelayMessage.Welcome.Intervals
        /// The addresses for reconnecting.
        package var urls: [String]
        /// The version of this program; `nil` if it is not told.
        package var software: String?

        package init(
            relay: RelayID,
            limits: Limits = Limits(),
            intervals: RelayMessage.Welcome.Intervals = RelayMessage.Welcome.Intervals(),
            urls: [String] = [],
            software: String? = nil
        ) {
            self.relay = relay
            self.limits = limits
            self.intervals = intervals
            self.urls = urls
            self.software = software
        }

        /// What this relay does beyond the version.
        private var features: ControlFeatures { [ControlFeatures.candidates] }

        /// - Parameter account: The account's limits; `nil` for the relay's own.
        package func welcome(accountName: String?, _ account: Limits? = nil) -> RelayMessage {
            .welcome(
                .init(
                    limits: account ?? limits,
                    intervals: intervals,
                    urls: urls,
                    features: features,
                    accountName: accountName,
                    software: software
                )
            )
        }

        /// How long each step of the greeting may take.
        var helloTime: Milliseconds { Milliseconds(clamping: min(limits[.helloSeconds], 86_400) * 1_000) }
    }

    enum State {
        case new
        /// Waits for the hello.
        case greeting
        /// The verifier checks the token.
        case verifying(EndpointMessage.Hello, Unverified<EndpointRecord>)
        /// Waits for the core. Messages that the core sends before its answer are kept until `welcome`.
        case connecting(ProvedHello, early: [RelayMessage])
        case open(Open)
        /// Closed, perhaps before the core has answered.
        case closed(awaitsCore: Bool)
    }

    struct Open {
        var channel: ChannelID
        var identity: Identity
        var endpoint: EndpointID
        var endpointKey: SigningPublicKey
        /// The scopes of the newest token.
        var scopes: Set<RelayScope>
        /// The check that is under way.
        var check: TokenCheck?
    }

    /// Why the token of an open channel is checked.
    enum TokenCheck {
        /// The endpoint presents a new one.
        case refresh(RequestRef, Secret<String>)
        /// The endpoint links an identity.
        case link(RequestRef)
        /// The issuer's statement about it may have changed.
        case recheck
    }

    struct TokenLife {
        /// On the wall clock.
        var expires: Milliseconds
        /// The same on the monotonic clock, so that setting the wall clock ends no channel.
        var ends: Milliseconds
        /// When the endpoint is warned, by the monotonic clock.
        var warningDue: Milliseconds
        var isWarned = false
        /// When it is to be checked again, by the other clock, and its text; `nil` if its signature says all.
        var recheck: (due: Milliseconds, text: Secret<String>)?
    }

    /// How long before the end of a token the endpoint is warned, at most. It is a third of the remaining life for a shorter token.
    package static let expiringWarning: Milliseconds = 60_000
    /// How long ago the login behind a token that links an identity may be.
    static let freshLogin: Milliseconds = 300_000
    /// How long after an issuer did not answer it is asked again.
    static let recheckPause: Milliseconds = 10_000

    let settings: Settings
    let nonce: [UInt8]
    /// The network address of the client.
    let address: String?
    let pingAfter: Milliseconds
    let isOwnOrigin: (String) -> Bool
    /// Counts a request, and returns how long to wait if the rate is exceeded.
    let take: (Limit, EndpointID, Milliseconds) -> Milliseconds?
    var state = State.new
    /// Valid while the channel is open.
    var token = TokenLife(expires: 0, ends: 0, warningDue: 0)
    /// The logins whose revocation ends the channel.
    var logins: [Login] = []
    /// Whether one was revoked while the core was connecting the endpoint.
    var isLoginRevoked = false
    /// The end of the current step of the greeting.
    var greetingEnds: Milliseconds = 0
    /// Whether the time for the hello was already extended once because the relay was late.
    var isLate = false
    var lastReceived: Milliseconds = 0
    var sent: Milliseconds = 0
    var pinged: Milliseconds = 0

    /// - Parameters:
    ///   - nonce: 32 random bytes.
    ///   - address: the network address of the client.
    ///   - jitter: 0.9 … 1.1, to spread the pings of all channels.
    ///   - isOwnOrigin: whether an origin is this relay's.
    ///   - take: counts a request; `nil` if it is allowed, otherwise the time to wait.
    package init(
        settings: Settings,
        nonce: [UInt8],
        address: String? = nil,
        jitter: Double,
        isOwnOrigin: @escaping (String) -> Bool,
        take: @escaping (Limit, EndpointID, Milliseconds) -> Milliseconds?
    ) {
        self.settings = settings
        self.nonce = nonce
        self.address = address
        self.pingAfter = Milliseconds(clamping: Int64(Double(settings.intervals.ping.count) * min(max(jitter, 0.9), 1.1)))
        self.isOwnOrigin = isOwnOrigin
        self.take = take
    }

    package var isWelcome: Bool {
        if case .open = state { true } else { false }
    }

    package var isClosed: Bool {
        if case .closed = state { true } else { false }
    }

    /// Whether the core's answer is still due, even if the channel has closed.
    package var isAwaitingCore: Bool {
        switch state {
        case .connecting, .closed(awaitsCore: true): true
        case .new, .greeting, .verifying, .open, .closed: false
        }
    }

    /// The WebSocket is open.
    package mutating func opened(_ now: Moment) -> [Action] {
        guard case .new = state else { return [] }
        state = .greeting
        greetingEnds = now.uptime + helloTime
        lastReceived = now.uptime
        let challenge = RelayMessage.Challenge(
            nonce: Blob(nonce),
            relay: settings.relay,
            time: now.time,
            versions: HelloCheck.versions,
            features: []
        )
        return say(.challenge(challenge), now)
    }

    /// Bytes of any kind have arrived.
    package mutating func bytesArrived(_ now: Moment) { lastReceived = max(lastReceived, now.uptime) }

    /// A text message has arrived.
    package mutating func received(_ frame: ByteBuffer, _ now: Moment) -> [Action] {
        if case .closed = state { return [] }
        let received: EndpointMessage.Received
        do throws(ControlFrameError) {
            received = try EndpointMessage.decode(from: frame, limits: settings.limits, isWelcome: isWelcome)
        } catch {
            return close(code: error.closeCode, reason: error.description)
        }
        switch (state, received) {
        case (_, .ignored): return []
        case (.greeting, .message(.hello(let hello))): return receivedHello(hello, now)
        case (.greeting, _): return close(code: 1002, reason: "hello is expected first")
        case (.open, .message(.hello)): return close(code: 1002, reason: "one hello is enough")
        case (.open, .refused(let failure)): return say(.failure(failure), now)
        case (.open(let open), .message(let message)): return receivedRequest(message, open, now)
        default: return close(code: 1002, reason: "only one hello is expected before welcome")
        }
    }

    /// The client has sent a close frame.
    package mutating func receivedClose(code: UInt16?) -> [Action] { close(code: code ?? 1000, reason: "") }

    /// The client has violated the WebSocket protocol.
    package mutating func violated(_ violation: WebSocketReader.Violation) -> [Action] {
        close(code: violation.code, reason: violation.reason)
    }

    /// The connection is closed.
    package mutating func disconnected() -> [Action] {
        close(code: 1006, reason: "").filter { if case .close = $0 { false } else { true } }
    }

    /// The login of the channel was revoked.
    package mutating func loginRevoked(_ revoked: Login, _ now: Moment) -> [Action] {
        guard logins.contains(revoked) else { return [] }
        let (code, message) = (ControlErrorCode.tokenRevoked, Self.revoked)
        switch state {
        case .connecting:
            // The core may have the better reason: the endpoint was revoked, which also ended the login.
            isLoginRevoked = true
            return []
        case .open:
            return invalidate(code, message, now)
        case .new, .greeting, .verifying, .closed: return []
        }
    }

    static let revoked = "the login was revoked"

    /// Lives by a token from now on.
    mutating func adopt(_ token: AcceptedToken, _ text: Secret<String>, _ now: Moment) -> [Action] {
        let life = token.expires - now.time
        let ends = now.uptime + life
        let warning = min(Self.expiringWarning, Milliseconds(clamping: life.count / 3))
        self.token = TokenLife(expires: token.expires, ends: ends, warningDue: ends - warning)
        self.token.recheck = token.recheck.map { (now.uptime + ($0 - now.time), text) }
        guard token.revocable != logins else { return [] }
        logins = token.revocable
        return [.follow(logins)]
    }

    /// The endpoint reads too slowly: too many bytes wait for it.
    package mutating func outboundOverflowed() -> [Action] { close(code: 1008, reason: "too much is waiting to be read") }

    /// The relay stops; the core has already sent `restarting`.
    package mutating func relayStops() -> [Action] { close(code: 1012, reason: "the relay restarts") }

    /// The core sends a message.
    package mutating func peerSends(_ message: RelayMessage, _ now: Moment) -> [Action] {
        switch state {
        case .connecting(let hello, let early):
            state = .connecting(hello, early: early + [message])
            return []
        case .open: return say(message, now)
        case .new, .greeting, .verifying, .closed: return []
        }
    }

    /// The core closes the channel.
    package mutating func peerCloses(code: UInt16, reason: String) -> [Action] { close(code: code, reason: reason) }

    mutating func say(_ message: RelayMessage, _ now: Moment) -> [Action] {
        sent = max(sent, now.uptime)
        return [.send(message)]
    }

    mutating func close(code: UInt16, reason: String, isSilent: Bool = false) -> [Action] {
        defer {
            switch state {
            case .connecting: state = .closed(awaitsCore: true)
            case .closed: break
            default: state = .closed(awaitsCore: false)
            }
        }
        switch state {
        case .closed: return []
        case .open(let open): return [.disconnected(open.channel, isSilent: isSilent), .close(code: code, reason: reason)]
        default: return [.close(code: code, reason: reason)]
        }
    }

    var helloTime: Milliseconds { settings.helloTime }
}

extension Milliseconds {
    static func + (left: Self, right: Self) -> Self { Milliseconds(clamping: left.count &+ right.count) }
    /// Zero if the right side is larger.
    static func - (left: Self, right: Self) -> Self { Milliseconds(clamping: left.count &- right.count) }
}
