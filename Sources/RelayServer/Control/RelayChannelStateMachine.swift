// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// One control channel's life, without I/O and clock: greeting, requests, liveness, the token's end.
package struct RelayChannelStateMachine {
    package enum Action: Hashable, Sendable {
        case send(RelayMessage)
        case ping
        /// Have the token checked; the answer is `tokenChecked`.
        case checkToken(Secret<String>, endpointKey: SigningPublicKey)
        /// Ask the core; the answer is `coreAnswered`.
        case connect(ProvedHello)
        /// The endpoint is in: larger frames are allowed, and it counts as unauthenticated no more.
        case welcomed
        case forward(EndpointMessage, ChannelID)
        /// Say `loginRevoked` when this login is; no other any more.
        case follow(Login?)
        case disconnected(ChannelID, isSilent: Bool)
        /// The last action: a close frame, then the end of the connection.
        case close(code: UInt16, reason: String)
    }

    /// Now, by two clocks: one that only goes forward, and the one on the wall, since 1970.
    package struct Moment: Hashable, Sendable {
        package var uptime: Milliseconds
        package var time: Milliseconds

        package init(uptime: Milliseconds, time: Milliseconds) {
            self.uptime = uptime
            self.time = time
        }
    }

    /// What all channels of a relay have in common.
    package struct Settings: Sendable {
        package var relay: RelayID
        package var limits: Limits
        package var intervals: RelayMessage.Welcome.Intervals
        /// Where endpoints come back to.
        package var urls: [String]

        package init(
            relay: RelayID,
            limits: Limits = Limits(),
            intervals: RelayMessage.Welcome.Intervals = RelayMessage.Welcome.Intervals(),
            urls: [String] = []
        ) {
            self.relay = relay
            self.limits = limits
            self.intervals = intervals
            self.urls = urls
        }

        var welcome: RelayMessage { .welcome(.init(limits: limits, intervals: intervals, urls: urls, features: [])) }

        /// How long each step of the greeting may take.
        var helloTime: Milliseconds { Milliseconds(clamping: min(limits[.helloSeconds], 86_400) * 1_000) }
    }

    enum State {
        case new
        /// Awaits the hello.
        case greeting
        /// The token is with the verifier.
        case verifying(EndpointMessage.Hello, Unverified<EndpointRecord>)
        /// The core is asked; what it says before it has answered waits for the welcome.
        case connecting(ProvedHello, early: [RelayMessage])
        case open(Open)
        /// Closed, perhaps before the core had answered.
        case closed(awaitsCore: Bool)
    }

    struct Open {
        var channel: ChannelID
        var identity: Identity
        var endpoint: EndpointID
        var endpointKey: SigningPublicKey
        /// What the newest token allows.
        var scopes: Set<RelayScope>
        var refreshing: RequestRef?
    }

    struct TokenLife {
        /// By the wall.
        var expires: Milliseconds
        /// The same by the other clock: a wall clock that is set ends no channel.
        var ends: Milliseconds
        var isWarned = false
    }

    /// How long before a token's end the endpoint is told.
    package static let expiringWarning: Milliseconds = 60_000

    let settings: Settings
    let nonce: [UInt8]
    /// The network address of the other side.
    let address: String?
    let pingAfter: Milliseconds
    let isOwnOrigin: (String) -> Bool
    /// Counts a request; says how long to wait if there were too many.
    let take: (Limit, EndpointID, Milliseconds) -> Milliseconds?
    var state = State.new
    /// Of an open channel.
    var token = TokenLife(expires: 0, ends: 0)
    /// Whose revocation ends the channel.
    var login: Login?
    /// It was revoked while the core was asked.
    var isLoginRevoked = false
    /// Until when this phase of the greeting may last.
    var greetingEnds: Milliseconds = 0
    /// The hello's time was over before the relay had read what came.
    var isLate = false
    var lastReceived: Milliseconds = 0
    var sent: Milliseconds = 0
    var pinged: Milliseconds = 0

    /// - Parameters:
    ///   - nonce: 32 random bytes.
    ///   - address: the network address of the other side.
    ///   - jitter: 0.9 … 1.1, so that not all channels are pinged at once.
    ///   - isOwnOrigin: whether an origin leads to this relay.
    ///   - take: counts a request; `nil` if there is room for it, else how long to wait.
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

    /// Whether the core owes an answer, be the channel still there or not.
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

    /// Bytes arrived, whatever they are.
    package mutating func bytesArrived(_ now: Moment) { lastReceived = max(lastReceived, now.uptime) }

    /// A text message arrived.
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

    /// The client closes.
    package mutating func receivedClose(code: UInt16?) -> [Action] { close(code: code ?? 1000, reason: "") }

    /// The client broke the rules of WebSocket.
    package mutating func violated(_ violation: WebSocketReader.Violation) -> [Action] {
        close(code: violation.code, reason: violation.reason)
    }

    /// The connection is gone.
    package mutating func disconnected() -> [Action] {
        close(code: 1006, reason: "").filter { if case .close = $0 { false } else { true } }
    }

    /// The login that the channel lives by was revoked.
    package mutating func loginRevoked(_ revoked: Login, _ now: Moment) -> [Action] {
        guard revoked == login else { return [] }
        let (code, message) = (ControlErrorCode.tokenRevoked, Self.revoked)
        switch state {
        case .connecting:
            // The core may know better why the endpoint is not let in: it was revoked, and its login ended with it.
            isLoginRevoked = true
            return []
        case .open:
            let invalidated = RelayMessage.AuthInvalidated(code: code, message: message)
            return say(.authInvalidated(invalidated), now) + close(code: 1008, reason: code.rawValue)
        case .new, .greeting, .verifying, .closed: return []
        }
    }

    static let revoked = "the login was revoked"

    mutating func follow(_ new: Login?) -> [Action] {
        guard new != login else { return [] }
        login = new
        return [.follow(new)]
    }

    /// More waits to be sent than the endpoint reads.
    package mutating func outboundOverflowed() -> [Action] { close(code: 1008, reason: "too much is waiting to be read") }

    /// The relay stops; the core has said so.
    package mutating func relayStops() -> [Action] { close(code: 1012, reason: "the relay restarts") }

    /// The core says something.
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
    /// Zero, if the right side is larger.
    static func - (left: Self, right: Self) -> Self { Milliseconds(clamping: left.count &- right.count) }
}
