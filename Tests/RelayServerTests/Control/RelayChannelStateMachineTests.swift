// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayServer
import Synchronization
import Testing

@Suite struct RelayChannelStateMachineTests {
    typealias Machine = RelayChannelStateMachine
    static let relay = RelayKey().id
    static let endpoint = TransportTestEndpoint()
    static let nonce = [UInt8](repeating: 1, count: 32)
    static let origin = "https://relay.example"

    static func at(_ milliseconds: Int64) -> Machine.Moment {
        Machine.Moment(uptime: Milliseconds(clamping: milliseconds), time: Milliseconds(clamping: 1_000_000 + milliseconds))
    }

    static func token(_ expires: Int64, subject: String = "anna", login: Login? = nil) -> AcceptedToken {
        FixedTokens.verified(subject, Milliseconds(clamping: 1_000_000 + expires), login: login)
    }

    static func machine(
        limits: Limits = Limits(),
        jitter: Double = 1,
        take: @escaping (Limit, EndpointID, Milliseconds) -> Milliseconds? = { _, _, _ in nil }
    ) -> Machine {
        Machine(
            settings: Machine.Settings(relay: relay, limits: limits),
            nonce: nonce,
            jitter: jitter,
            isOwnOrigin: { $0 == origin },
            take: take
        )
    }

    static func frame(_ message: EndpointMessage) throws -> ByteBuffer { try message.encode() }

    static func helloFrame() throws -> ByteBuffer {
        try frame(try endpoint.hello(nonce: nonce, relay: relay, origin: origin))
    }

    /// An open machine, at time 0, whose token lives so long.
    static func open(
        tokenLife: Int64 = 3_600_000,
        jitter: Double = 1,
        take: @escaping (Limit, EndpointID, Milliseconds) -> Milliseconds? = { _, _, _ in nil }
    ) throws -> Machine {
        var machine = machine(jitter: jitter, take: take)
        _ = machine.opened(at(0))
        _ = machine.received(try helloFrame(), at(0))
        _ = machine.tokenChecked(.success(token(tokenLife)), at(0))
        let actions = machine.coreAnswered(.success(AcceptedChannel(ChannelID(7))), at(0))
        #expect(actions.contains(.welcomed))
        return machine
    }

    /// The shortcut for `welcome` gives the same frame as the encoder, whatever the name contains.
    @Test(arguments: ["Anna", "Zoë", #"a"b\c"#, "}{,:[]", "\u{1F469}\u{200D}\u{1F680}"])
    func welcomeWithANameIsTheEncodedMessage(_ name: String) throws {
        let settings = Machine.Settings(relay: Self.relay, limits: Limits())
        let plain = try settings.welcome(accountName: nil).encode()
        let named = settings.welcome(accountName: name)
        #expect(ControlServices.frame(adding: name, to: plain) == (try named.encode()))
        let frame = ControlServices.frame(adding: name, to: plain)
        #expect(try RelayMessage.decode(from: frame, limits: Limits(), isWelcome: true) == named)
    }

    static func ref(_ number: Int64) throws -> RequestRef { try #require(RequestRef(number)) }

    @Test func challengeTokenCheckAndWelcomeComeInOrder() throws {
        var machine = Self.machine()
        let challenge = machine.opened(Self.at(5))
        guard case .send(.challenge(let content)) = challenge.first, challenge.count == 1 else {
            Issue.record("\(challenge)")
            return
        }
        #expect(content.time == 1_000_005)
        #expect(machine.deadline == 10_005)
        let checking = machine.received(try Self.helloFrame(), Self.at(6))
        #expect(checking == [.checkToken(Secret(FixedTokens.good), endpointKey: Self.endpoint.identityKey.publicKey)])
        let connecting = machine.tokenChecked(.success(Self.token(3_600_000)), Self.at(7))
        guard case .connect(let hello) = connecting.first, connecting.count == 1 else {
            Issue.record("\(connecting)")
            return
        }
        #expect(hello.tokenExpires == 4_600_000)
        #expect(!machine.isWelcome)
        let welcome = machine.coreAnswered(.success(AcceptedChannel(ChannelID(7))), Self.at(8))
        guard case .send(.welcome) = welcome.first else {
            Issue.record("\(welcome)")
            return
        }
        #expect(welcome.dropFirst() == [.welcomed])
        #expect(machine.isWelcome)
    }

    @Test func earlyMessagesOfTheCoreAreSentAfterWelcome() throws {
        var machine = Self.machine()
        _ = machine.opened(Self.at(0))
        _ = machine.received(try Self.helloFrame(), Self.at(0))
        _ = machine.tokenChecked(.success(Self.token(3_600_000)), Self.at(0))
        #expect(machine.peerSends(.replaced(RelayMessage.Replaced()), Self.at(0)) == [])
        let actions = machine.coreAnswered(.success(AcceptedChannel(ChannelID(7))), Self.at(0))
        #expect(actions.dropFirst() == [.welcomed, .send(.replaced(RelayMessage.Replaced()))])
    }

    @Test func channelClosedDuringConnectIsDisconnected() throws {
        var machine = Self.machine()
        _ = machine.opened(Self.at(0))
        _ = machine.received(try Self.helloFrame(), Self.at(0))
        _ = machine.tokenChecked(.success(Self.token(3_600_000)), Self.at(0))
        #expect(machine.disconnected() == [])
        #expect(machine.coreAnswered(.success(AcceptedChannel(ChannelID(7))), Self.at(1)) == [.disconnected(ChannelID(7), isSilent: false)])
        #expect(machine.coreAnswered(.success(AcceptedChannel(ChannelID(8))), Self.at(1)) == [])
        #expect(machine.disconnected() == [])
    }

    @Test func channelEndsWhenTheLoginOfItsNewestTokenIsRevoked() throws {
        let (first, second) = (FixedTokens.login, FixedTokens.otherLogin)
        var machine = Self.machine()
        _ = machine.opened(Self.at(0))
        _ = machine.received(try Self.helloFrame(), Self.at(0))
        #expect(machine.tokenChecked(.success(Self.token(3_600_000, login: first)), Self.at(0)).last == .follow([first]))
        // While the core is asked, which may know that the endpoint was revoked.
        let revoked = RelayMessage.Rejected(code: .endpointRevoked, message: "", retry: false)
        for (answer, code) in [(.success(AcceptedChannel(ChannelID(7))), .tokenRevoked), (.failure(revoked), .endpointRevoked)]
            as [(Result<AcceptedChannel, RelayMessage.Rejected>, ControlErrorCode)]
        {
            var connecting = machine
            #expect(connecting.loginRevoked(first, Self.at(1)) == [])
            let actions = connecting.coreAnswered(answer, Self.at(2))
            let said = actions.compactMap { if case .send(.rejected(let rejected)) = $0 { rejected.code } else { nil } }
            #expect(said == [code])
            #expect(actions.contains(.disconnected(ChannelID(7), isSilent: false)) == (code == .tokenRevoked))
            #expect(connecting.isClosed && !connecting.isAwaitingCore)
        }
        _ = machine.coreAnswered(.success(AcceptedChannel(ChannelID(7))), Self.at(1))
        #expect(machine.loginRevoked(second, Self.at(2)) == [])
        let refresh = EndpointMessage.authRefresh(.init(ref: try Self.ref(1), token: Secret("new")))
        _ = machine.received(try Self.frame(refresh), Self.at(3))
        #expect(machine.tokenChecked(.success(Self.token(3_600_000, login: second)), Self.at(3)).contains(.follow([second])))
        #expect(machine.loginRevoked(first, Self.at(4)) == [])
        let actions = machine.loginRevoked(second, Self.at(5))
        guard case .send(.authInvalidated(let invalidated)) = actions.first else {
            Issue.record("\(actions)")
            return
        }
        #expect(invalidated.code == .tokenRevoked)
        #expect(actions.dropFirst() == [.disconnected(ChannelID(7), isSilent: false), .close(code: 1008, reason: "tokenRevoked")])
        #expect(machine.loginRevoked(second, Self.at(6)) == [])
    }

    @Test func unreadBytesPostponeTheTimeout() throws {
        var greeting = Self.machine()
        _ = greeting.opened(Self.at(0))
        #expect(greeting.handleDeadlines(Self.at(10_000), hasUnread: true) == [])
        #expect(greeting.deadline == 20_000)
        // Only once: a client that never stops sending is closed.
        #expect(greeting.handleDeadlines(Self.at(20_000), hasUnread: true) == [.close(code: 1008, reason: "no hello within 10 s")])

        var open = try Self.open()
        #expect(open.handleDeadlines(Self.at(200_000), hasUnread: true) == [.ping])
        #expect(open.handleDeadlines(Self.at(230_000)) == [.ping])
        let end = open.handleDeadlines(Self.at(275_000))
        #expect(end.last == .close(code: 1001, reason: "silent for too long"))
    }

    @Test func everyChannelIsDisconnectedOnce() throws {
        var machine = try Self.open()
        let first = machine.peerCloses(code: 4000, reason: "replaced")
        #expect(first == [.disconnected(ChannelID(7), isSilent: false), .close(code: 4000, reason: "replaced")])
        #expect(machine.disconnected() == [])
        #expect(machine.relayStops() == [])
        #expect(machine.receivedClose(code: 1000) == [])
        #expect(machine.handleDeadlines(Self.at(1_000_000)) == [])
        #expect(machine.peerSends(.replaced(RelayMessage.Replaced()), Self.at(1)) == [])
        #expect(machine.received(try Self.helloFrame(), Self.at(1)) == [])
        #expect(machine.deadline == nil)
    }

    @Test func silentChannelIsPingedAfter30SecondsAndClosedAfter75() throws {
        var machine = try Self.open()
        #expect(machine.deadline == 30_000)
        #expect(machine.handleDeadlines(Self.at(29_999)) == [])
        #expect(machine.handleDeadlines(Self.at(30_000)) == [.ping])
        #expect(machine.handleDeadlines(Self.at(30_001)) == [])
        #expect(machine.handleDeadlines(Self.at(60_000)) == [.ping])
        #expect(machine.deadline == 75_000)
        #expect(
            machine.handleDeadlines(Self.at(75_000)) == [
                .disconnected(ChannelID(7), isSilent: true), .close(code: 1001, reason: "silent for too long"),
            ]
        )
    }

    @Test func anyByteKeepsTheChannelOpen() throws {
        var machine = try Self.open()
        for second in stride(from: Int64(1_000), through: 200_000, by: 1_000) {
            machine.bytesArrived(Self.at(second))
            #expect(!machine.handleDeadlines(Self.at(second)).contains { if case .close = $0 { true } else { false } })
        }
        #expect(machine.isWelcome)
    }

    @Test func endpointThatOnlySendsIsPinged() throws {
        var machine = try Self.open()
        var pings: [Int64] = []
        for second in stride(from: Int64(1_000), through: 100_000, by: 1_000) {
            machine.bytesArrived(Self.at(second))
            if machine.handleDeadlines(Self.at(second)) == [.ping] { pings.append(second) }
        }
        #expect(pings == [30_000, 60_000, 90_000])
    }

    @Test(arguments: [(0.9, Int64(27_000)), (1.1, 33_000), (5, 33_000), (-1, 27_000)])
    func pingIntervalVariesByTenPercent(jitter: Double, after: Int64) throws {
        #expect(try Self.open(jitter: jitter).deadline == Milliseconds(clamping: after))
    }

    /// At most a minute ahead, and in the last third of a shorter token's life.
    @Test(arguments: [(181_000, 121_000), (180_000, 120_000), (60_000, 40_000), (9_000, 6_000)] as [(Int64, Int64)])
    func tokenExpiryIsAnnouncedAhead(life: Int64, warned: Int64) throws {
        let warning = RelayChannelStateMachine.Action.send(.authExpiring(.init(expires: Milliseconds(clamping: 1_000_000 + life))))
        var machine = try Self.open(tokenLife: life)
        machine.bytesArrived(Self.at(warned - 1))
        #expect(!machine.handleDeadlines(Self.at(warned - 1)).contains(warning))
        #expect(machine.deadline == Milliseconds(clamping: warned))
        #expect(machine.handleDeadlines(Self.at(warned)).contains(warning))
        #expect(!machine.handleDeadlines(Self.at(warned + 1)).contains(warning))
        machine.bytesArrived(Self.at(life - 1))
        let end = machine.handleDeadlines(Self.at(life))
        #expect(end.contains(.close(code: 1008, reason: "tokenExpired")))
        #expect(end.contains(.disconnected(ChannelID(7), isSilent: false)))
    }

    @Test func newTokenExtendsTheChannel() throws {
        var machine = try Self.open(tokenLife: 61_000)
        let refresh = EndpointMessage.authRefresh(EndpointMessage.AuthRefresh(ref: try Self.ref(1), token: Secret("new")))
        #expect(
            machine.received(try Self.frame(refresh), Self.at(500)) == [
                .checkToken(Secret("new"), endpointKey: Self.endpoint.identityKey.publicKey)
            ]
        )
        #expect(machine.tokenChecked(.success(Self.token(200_000)), Self.at(600)) == [.send(.ok(RelayMessage.OK(ref: try Self.ref(1))))])
        machine.bytesArrived(Self.at(60_000))
        #expect(machine.handleDeadlines(Self.at(61_000)) == [.ping])
        #expect(machine.isWelcome)
    }

    @Test func rejectedTokenChangesNothing() throws {
        var machine = try Self.open(tokenLife: 36_000)
        for (number, result) in [
            Result<AcceptedToken, TokenRejection>.failure(TokenRejection(code: .tokenRevoked, message: "")),
            .success(Self.token(900_000, subject: "bert")), .success(Self.token(0)),
        ].enumerated() {
            let ref = try Self.ref(Int64(number + 1))
            let refresh = EndpointMessage.authRefresh(EndpointMessage.AuthRefresh(ref: ref, token: Secret("new")))
            _ = machine.received(try Self.frame(refresh), Self.at(1))
            guard case .send(.failure(let failure)) = machine.tokenChecked(result, Self.at(2)).first else {
                Issue.record("refused token \(number) was not answered by an error")
                continue
            }
            #expect(failure.ref == ref)
            #expect([.tokenRevoked, .wrongAccount, .tokenExpired].contains(failure.code))
        }
        #expect(machine.deadline == 24_000)
    }

    @Test func oneTokenIsCheckedAtATime() throws {
        var machine = try Self.open()
        func refresh(_ number: Int64) throws -> ByteBuffer {
            try Self.frame(.authRefresh(EndpointMessage.AuthRefresh(ref: try Self.ref(number), token: Secret("new"))))
        }
        _ = machine.received(try refresh(1), Self.at(1))
        guard case .send(.failure(let failure)) = machine.received(try refresh(2), Self.at(1)).first else {
            Issue.record("a second token was taken")
            return
        }
        #expect(failure.code == .tooManyRequests)
    }

    @Test func freshLoginLinksItsIdentity() throws {
        var machine = try Self.open()
        // By the relay's clock, which the tests begin at 1,000,000.
        let now = Self.at(1).time.count
        for (number, (time, isFresh)) in [
            (Int64?.none, false), (now - 300_001, false), (now - 300_000, true), (now, true), (now + 60_000, true), (now + 60_001, false),
        ].enumerated() {
            let ref = try Self.ref(Int64(number + 1))
            let link = EndpointMessage.identityLink(.init(ref: ref, token: Secret("other")))
            #expect(
                machine.received(try Self.frame(link), Self.at(1)) == [
                    .checkToken(Secret("other"), endpointKey: Self.endpoint.identityKey.publicKey)
                ]
            )
            var token = Self.token(3_600_000, subject: "bert")
            token.authenticated = time.map { Milliseconds(clamping: $0) }
            token.isBound = true
            let actions = machine.tokenChecked(.success(token), Self.at(1))
            if isFresh {
                #expect(actions == [.link(token.identity, ref, ChannelID(7))])
            } else {
                guard case .send(.failure(let failure)) = actions.first else {
                    Issue.record("an old login was taken")
                    continue
                }
                #expect(failure.code == .loginTooOld && failure.ref == ref)
            }
        }
        // A token that no key is bound to may have been given to another service of the issuer.
        let ref = try Self.ref(100)
        _ = machine.received(try Self.frame(.identityLink(.init(ref: ref, token: Secret("other")))), Self.at(1))
        var token = Self.token(3_600_000, subject: "bert")
        token.authenticated = Milliseconds(clamping: now)
        guard case .send(.failure(let failure)) = machine.tokenChecked(.success(token), Self.at(1)).first else {
            Issue.record("a token without a key was taken")
            return
        }
        #expect(failure.code == .tokenNotBound)
        // The channel is that of its own identity.
        #expect(machine.isWelcome)
    }

    @Test func eachRequestCountsForItsRate() throws {
        let counted = Mutex<[Limit]>([])
        var machine = try Self.open { limit, _, _ in
            counted.withLock { $0.append(limit) }
            return nil
        }
        _ = machine.received(try Self.frame(.watch(EndpointMessage.Watch(ref: try Self.ref(1)))), Self.at(1))
        _ = machine.received(try Self.frame(.unwatch(EndpointMessage.Unwatch(ref: try Self.ref(2)))), Self.at(1))
        let command = EndpointMessage.commandSend(EndpointMessage.CommandSend(ref: try Self.ref(3), command: Blob([1])))
        #expect(machine.received(try Self.frame(command), Self.at(1)) == [.forward(command, ChannelID(7))])
        #expect(counted.withLock { $0 } == [.watchesPerSecond, .commandsPerSecond])
    }

    @Test func tooManyCommandsAreNotForwarded() throws {
        let rates = EndpointRates(limits: Limits())
        var machine = try Self.open { rates.take($0, of: $1, uptime: $2) }
        var forwarded = 0
        var refused: RelayMessage.Failure?
        for number in 1...501 as ClosedRange<Int64> {
            let command = EndpointMessage.commandSend(EndpointMessage.CommandSend(ref: try Self.ref(number), command: Blob([1])))
            switch machine.received(try Self.frame(command), Self.at(1)).first {
            case .forward: forwarded += 1
            case .send(.failure(let failure)): refused = failure
            default: break
            }
        }
        #expect(forwarded == 500)
        #expect(refused?.code == .tooManyRequests)
        #expect(refused?.retryAfter == 20)
        #expect(refused?.limit?.name == "commandsPerSecond")
        #expect(refused?.mayHaveRun == false)
    }

    /// The relay has not looked for the command. If it was sent before, it may run.
    @Test func commandThatIsSentAgainMayHaveRun() throws {
        var machine = try Self.open { _, _, _ in 20 }
        for (number, isAgain) in [(1, false), (2, true)] as [(Int64, Bool)] {
            let send = EndpointMessage.CommandSend(ref: try Self.ref(number), command: Blob([1]), again: isAgain)
            guard case .send(.failure(let failure)) = machine.received(try Self.frame(.commandSend(send)), Self.at(1)).first else {
                Issue.record("not rejected")
                continue
            }
            #expect(failure.code == .tooManyRequests)
            #expect(failure.mayHaveRun == isAgain)
        }
    }

    @Test func randomInputsDisconnectOnceAndCauseNothingAfterClose() throws {
        for seed in UInt64(1)...300 {
            var generator = TransportGenerator(seed: seed)
            var machine = Self.machine()
            var time: Int64 = 0
            var connects = 0
            var disconnects = 0
            var isEnded = false
            for _ in 0..<40 {
                time += Int64.random(in: 0...20_000, using: &generator)
                let now = Self.at(time)
                let actions: [Machine.Action]
                switch Int.random(in: 0..<13, using: &generator) {
                case 0: actions = machine.opened(now)
                case 1, 2: actions = machine.received(try Self.helloFrame(), now)
                case 3: actions = machine.tokenChecked(.success(Self.token(time + 300_000, login: FixedTokens.login)), now)
                case 4: actions = machine.tokenChecked(.failure(TokenRejection(code: .tokenInvalid, message: "")), now)
                case 5, 6:
                    connects += machine.isAwaitingCore ? 1 : 0
                    actions = machine.coreAnswered(.success(AcceptedChannel(ChannelID(7))), now)
                case 7: actions = machine.received(try Self.frame(.unwatch(EndpointMessage.Unwatch(ref: try Self.ref(1)))), now)
                case 8: actions = machine.peerSends(.replaced(RelayMessage.Replaced()), now)
                case 9: actions = Bool.random(using: &generator) ? machine.disconnected() : machine.receivedClose(code: nil)
                case 10: actions = machine.received(ByteBuffer(string: "{"), now)
                case 11: actions = machine.loginRevoked(FixedTokens.login, now)
                default: actions = machine.handleDeadlines(now)
                }
                for action in actions {
                    switch action {
                    case .disconnected: disconnects += 1
                    case .send, .ping, .forward, .link, .connect, .checkToken, .welcomed, .follow:
                        #expect(!isEnded, "seed \(seed)")
                    case .close: #expect(!isEnded, "seed \(seed)")
                    }
                    if case .close = action { isEnded = true }
                }
                isEnded = isEnded || machine.isClosed
                #expect(disconnects <= connects, "seed \(seed)")
            }
            _ = machine.disconnected().map { if case .disconnected = $0 { disconnects += 1 } }
            #expect(disconnects == connects, "seed \(seed)")
        }
    }
}

/// Deterministic (SplitMix64).
struct TransportGenerator: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { self.state = seed }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}
