// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer
import Synchronization

extension ControlPeer {
    func send(_ message: RelayMessage) { send(message, whenWritten: nil) }
}

/// Replaces the core: records the calls of the transport, and answers as configured.
final class RecordingCore: RelayCoreProtocol {
    struct Connected: Sendable {
        var channel: ChannelID
        var hello: ProvedHello
        var peer: any ControlPeer
    }

    private struct State {
        var nextChannel: UInt64 = 1
        var connected: [Connected] = []
        var received: [EndpointMessage] = []
        var disconnected: [ChannelID: Bool] = [:]
        var rejection: RelayMessage.Rejected?
        var isAnswering = true
        var isStarted = false
        var ticks = 0
    }

    private let state = Mutex(State())
    private let isRevoked: Bool
    /// What a received message is answered with.
    let answer: @Sendable (EndpointMessage) -> [RelayMessage]

    init(
        rejection: RelayMessage.Rejected? = nil,
        isAnswering: Bool = true,
        isRevoked: Bool = false,
        answer: @escaping @Sendable (EndpointMessage) -> [RelayMessage] = { message in
            message.ref.map { [.ok(RelayMessage.OK(ref: $0))] } ?? []
        }
    ) {
        self.answer = answer
        self.isRevoked = isRevoked
        state.withLock {
            $0.rejection = rejection
            $0.isAnswering = isAnswering
        }
    }

    var connected: [Connected] { state.withLock { $0.connected } }
    var received: [EndpointMessage] { state.withLock { $0.received } }
    /// Channels that are gone, and whether they fell silent.
    var disconnected: [ChannelID: Bool] { state.withLock { $0.disconnected } }
    var isStarted: Bool { state.withLock { $0.isStarted } }

    func link(_ identity: Identity, ref: RequestRef, on channel: ChannelID) {}

    func connect(
        _ hello: ProvedHello,
        peer: any ControlPeer,
        completion: @escaping @Sendable (Result<AcceptedChannel, RelayMessage.Rejected>) -> Void
    ) {
        let result: Result<AcceptedChannel, RelayMessage.Rejected>? = state.withLock { state in
            guard state.isAnswering else { return nil }
            if let rejection = state.rejection { return .failure(rejection) }
            let channel = ChannelID(state.nextChannel)
            state.nextChannel += 1
            state.connected.append(Connected(channel: channel, hello: hello, peer: peer))
            return .success(AcceptedChannel(channel))
        }
        if let result { completion(result) }
    }

    func isRevoked(_ endpoint: EndpointID, completion: @escaping @Sendable (Bool) -> Void) { completion(isRevoked) }

    func receive(_ message: EndpointMessage, on channel: ChannelID) -> Bool {
        let peer = state.withLock { state in
            state.received.append(message)
            return state.connected.first { $0.channel == channel }?.peer
        }
        for answer in answer(message) { peer?.send(answer) }
        return true
    }

    func disconnected(_ channel: ChannelID, isSilent: Bool) {
        state.withLock { $0.disconnected[channel] = isSilent }
    }

    func untilDue() async throws { try await Task.sleep(for: .seconds(1)) }
    func handleDeadlines() { state.withLock { $0.ticks += 1 } }
    // Tunnels are tested with the real core.
    func enter(_ tunnel: TunnelID, token: [UInt8], _ connection: TunnelConnection) -> EntrantID? { nil }
    func use(_ tunnel: TunnelID, generation: Int) -> Bool { false }
    func left(_ tunnel: TunnelID, _ entrant: EntrantID) {}
    var entrantCount: Int { 0 }
    func closeTunnels() {}

    func start(tunnelPorts: [Int]) { state.withLock { $0.isStarted = true } }
    func stop() {
        for connected in connected {
            connected.peer.send(.restarting(RelayMessage.Restarting(after: 100, spread: 200)))
        }
    }
}

/// Knows a few tokens by their text.
struct FixedTokens: TokenVerifying {
    /// A login of its own for each of Anna's tokens.
    static let login = Login(issuer: "embedded", session: "anna's phone")
    static let otherLogin = Login(issuer: "embedded", session: "anna's tablet")
    static let good = "good-token"
    static let renewed = "renewed-token"
    static let other = "other-persons-token"
    static let expired = "expired-token"
    static let short = "short-token"
    static let unanswered = "unanswered-token"

    let logins = LoginRegistry()

    func follow(_ login: Login, revoked: @escaping @Sendable () -> Void) -> RevocationObserver {
        logins.follow(login, revoked: revoked)
    }

    func verify(
        token: String,
        endpointKey: SigningPublicKey,
        address: String,
        completion: @escaping @Sendable (Result<AcceptedToken, TokenRejection>) -> Void
    ) {
        let now = RelayClock.system.now().time
        func expires(_ seconds: Int64) -> Milliseconds { Milliseconds(clamping: now.count + seconds * 1_000) }
        switch token {
        case Self.good: completion(.success(Self.verified("anna", expires(3_600), login: Self.login)))
        case Self.renewed: completion(.success(Self.verified("anna", expires(3_600), login: Self.otherLogin)))
        case Self.other: completion(.success(Self.verified("bert", expires(3_600))))
        case Self.short: completion(.success(Self.verified("anna", expires(2))))
        case Self.expired: completion(.success(Self.verified("anna", expires(-1))))
        case Self.unanswered: break
        default: completion(.failure(TokenRejection(code: .tokenInvalid, message: "not a token of any issuer")))
        }
    }

    static func verified(
        _ subject: String,
        _ expires: Milliseconds,
        scopes: Set<RelayScope> = Set(RelayScope.allCases),
        login: Login? = nil
    ) -> AcceptedToken {
        AcceptedToken(
            identity: Identity(issuer: "embedded", subject: subject),
            mayMakeAccount: true,
            expires: expires,
            scopes: scopes,
            login: login
        )
    }
}
