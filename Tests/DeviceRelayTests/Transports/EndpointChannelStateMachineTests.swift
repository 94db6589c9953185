// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import NIOCore
import RelayProtocol
import RelayTesting
import Testing

@Suite struct EndpointChannelStateMachineTests {
    typealias Action = EndpointChannelStateMachine.Action

    // MARK: Greeting

    @Test func connectionIsMadeStepByStep() throws {
        var bench = MachineBench()
        #expect(bench.machine.status == .stopped(nil))
        #expect(bench.machine.start(now: 10) == [.requestToken(attempt: 1)])
        #expect(bench.machine.start(now: 10) == [])
        #expect(bench.machine.status == .connecting)
        #expect(bench.machine.deadline == nil, "a person may take long to sign in")
        #expect(bench.machine.tokenReady(attempt: 1, MachineBench.token, now: 10) == [.dial(attempt: 1, url: nil)])
        #expect(bench.machine.opened(attempt: 1, now: 20) == [])
        #expect(
            try bench.receive(.challenge(MachineBench.challenge), now: 30)
                == [.makeHello(attempt: 1, MachineBench.challenge, token: MachineBench.token)]
        )
        let hello = bench.machine.helloReady(attempt: 1, MachineBench.hello, now: 30, random: &bench.random)
        #expect(hello.map(\.message) == [.hello(MachineBench.hello)])
        #expect(try bench.receive(.welcome(.sample), now: 40) == [.connected(.sample)])
        #expect(bench.machine.status == .connected)
    }

    @Test func unexpectedMessageBeforeWelcomeClosesTheConnection() throws {
        for message in [RelayMessage.ok(.init(ref: .first)), .replaced(.init()), .welcome(.sample), .enumerationCompleted(.init())] {
            var bench = MachineBench()
            _ = bench.machine.start(now: 0)
            _ = bench.machine.tokenReady(attempt: 1, MachineBench.token, now: 0)
            _ = bench.machine.opened(attempt: 1, now: 0)
            let actions = try bench.receive(message, now: 0)
            guard case .close(attempt: 1, code: 1007, _)? = actions.first else {
                Issue.record("\(actions)")
                return
            }
            #expect(bench.waitingUntil != nil)
        }
    }

    @Test func otherRelayGetsNoToken() throws {
        var bench = MachineBench(relay: RelayID(P256SigningKey().publicKey))
        _ = bench.machine.start(now: 0)
        _ = bench.machine.tokenReady(attempt: 1, MachineBench.token, now: 0)
        _ = bench.machine.opened(attempt: 1, now: 0)
        let actions = try bench.receive(.challenge(MachineBench.challenge), now: 0)
        #expect(actions == [.close(attempt: 1, code: 1000, reason: ""), .disconnected(.otherRelay(MachineBench.relay))])
    }

    @Test func firstRelayIsPinned() throws {
        var bench = MachineBench(relay: nil)
        _ = bench.machine.start(now: 0)
        try bench.completeHello(now: 0)
        #expect(bench.machine.relay == MachineBench.relay)
    }

    @Test func rejectionStopsOrRetries() throws {
        func rejected(_ rejected: RelayMessage.Rejected) throws -> (MachineBench, [Action]) {
            var bench = MachineBench()
            _ = bench.machine.start(now: 0)
            _ = bench.machine.tokenReady(attempt: 1, MachineBench.token, now: 0)
            _ = bench.machine.opened(attempt: 1, now: 0)
            let actions = try bench.receive(.rejected(rejected), now: 0)
            return (bench, actions)
        }
        let revoked = RelayMessage.Rejected(code: .endpointRevoked, message: "", retry: false)
        let (stopped, actions) = try rejected(revoked)
        #expect(actions == [.close(attempt: 1, code: 1000, reason: ""), .disconnected(.rejected(revoked))])
        #expect(stopped.machine.status == .stopped(.rejected(revoked)))
        #expect(stopped.machine.deadline == nil)

        let expired = RelayMessage.Rejected(code: .tokenExpired, message: "", retry: true, retryAfter: 20_000)
        let (waiting, again) = try rejected(expired)
        #expect(again.first == .invalidateToken)
        #expect(try (20_000...20_500).contains(#require(waiting.waitingUntil)))
    }

    @Test func unsupportedVersionStops() throws {
        var bench = MachineBench()
        _ = bench.machine.start(now: 0)
        _ = bench.machine.tokenReady(attempt: 1, MachineBench.token, now: 0)
        _ = bench.machine.opened(attempt: 1, now: 0)
        var challenge = MachineBench.challenge
        challenge.versions = [2, 3]
        _ = try bench.receive(.challenge(challenge), now: 0)
        #expect(bench.machine.status == .stopped(.versionUnsupported([2, 3])))
    }

    @Test func everyStepHasATimeout() throws {
        var bench = MachineBench()
        _ = bench.machine.start(now: 0)
        _ = bench.machine.tokenReady(attempt: 1, MachineBench.token, now: 0)
        #expect(bench.machine.deadline == 30_000)
        #expect(bench.pass(29_999) == [])
        #expect(bench.pass(30_000).last == .disconnected(.dialFailed(.timedOut)))
        _ = bench.pass(try #require(bench.waitingUntil))
        _ = bench.machine.tokenReady(attempt: 2, MachineBench.token, now: 20_000)
        _ = bench.machine.opened(attempt: 2, now: 21_000)
        _ = try bench.receive(.challenge(MachineBench.challenge), now: 22_000)
        #expect(bench.pass(50_999) == [])
        #expect(bench.pass(51_000).last == .disconnected(.timedOut))
    }

    @Test func eventsOfOldAttemptsAreIgnored() throws {
        var bench = try MachineBench.connected()
        let before = bench.machine
        #expect(try bench.receive(.replaced(.init()), attempt: 0, now: 5) == [])
        #expect(bench.machine.closed(attempt: 0, code: nil, now: 5, random: &bench.random) == [])
        #expect(bench.machine.tokenReady(attempt: 0, MachineBench.token, now: 5) == [])
        #expect(bench.machine.opened(attempt: 1, now: 5) == [])
        #expect(bench.machine.dialFailed(attempt: 1, .timedOut, now: 5, random: &bench.random) == [])
        #expect(bench.machine == before)
    }

    // MARK: Requests

    @Test func eachRequestIsAnsweredOnce() throws {
        var bench = try MachineBench.connected()
        let (one, two) = (try bench.watch(), try bench.watch())
        #expect(one != two)
        #expect(try bench.receive(.ok(.init(ref: two)), now: 1) == [.answer(two, .ok(nil))])
        #expect(try bench.receive(.ok(.init(ref: two)), now: 1) == [])
        let failure = RelayMessage.Failure(ref: one, code: .unavailable, message: "")
        #expect(try bench.receive(.failure(failure), now: 1) == [.answer(one, .failure(failure))])
        let three = try bench.watch()
        #expect(
            bench.machine.closed(attempt: 1, code: 1006, now: 2, random: &bench.random)
                == [.answer(three, .connectionLost), .disconnected(.closed(code: 1006))]
        )
        #expect(throws: ControlSendError.notConnected) { try bench.watch() }
    }

    @Test func requestsAreBounded() throws {
        var bench = try MachineBench.connected()
        var refs: [RequestRef] = []
        for _ in 0..<EndpointChannelStateMachine.maximumRequests {
            let sent = try bench.machine.request(now: 0) { .watch(.init(ref: $0)) }
            refs.append(sent.ref)
            for case .send(_, let frame) in sent.actions { _ = bench.machine.written(attempt: 1, bytes: frame.readableBytes) }
        }
        #expect(throws: ControlSendError.busy) { try bench.watch() }
        var answers: [Action] = []
        for ref in refs { answers += try bench.receive(.ok(.init(ref: ref)), now: 0) }
        #expect(answers.filter { $0 == .roomAgain }.count == 1)
        _ = try bench.watch()
    }

    @Test func outboundBytesAreBounded() throws {
        var bench = try MachineBench.connected()
        let command = Blob<BlobKinds.Command>(Array(repeating: 0, count: 200 << 10))
        var waiting = 0
        while true {
            guard let sent = try? bench.machine.request(now: 0, { .commandSend(.init(ref: $0, command: command)) }) else { break }
            for case .send(_, let frame) in sent.actions { waiting += frame.readableBytes }
        }
        #expect(waiting < EndpointChannelStateMachine.maximumOutboundBytes + 512 << 10)
        #expect(throws: ControlSendError.busy) {
            try bench.machine.say(.commandReceived(.init(sender: EndpointID(digest: .zero), id: .sample)))
        }
        #expect(bench.machine.written(attempt: 1, bytes: waiting) == [.roomAgain])
        _ = try bench.machine.say(.commandReceived(.init(sender: EndpointID(digest: .zero), id: .sample)))
    }

    @Test func tooLargeMessageIsNotSent() throws {
        var bench = try MachineBench.connected()
        let command = Blob<BlobKinds.Command>(Array(repeating: 0, count: 512 << 10))
        do {
            _ = try bench.machine.request(now: 0) { .commandSend(.init(ref: $0, command: command)) }
            Issue.record("it was sent")
        } catch {
            guard case .tooLarge(let exceeded) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(exceeded.limit == .controlFrameBytes)
        }
    }

    @Test func unansweredRequestEndsTheConnection() throws {
        var bench = try MachineBench.connected()
        let ref = try bench.watch(now: 1_000)
        bench.machine.receivedBytes(attempt: 1, now: 50_000)
        #expect(
            bench.pass(61_000) == [.close(attempt: 1, code: 1001, reason: ""), .answer(ref, .connectionLost), .disconnected(.timedOut)]
        )
    }

    // MARK: Liveness

    @Test func silentRelayIsPingedThenDisconnected() throws {
        var bench = try MachineBench.connected()
        #expect(bench.machine.deadline == 30_000)
        #expect(bench.pass(29_999) == [])
        #expect(bench.pass(30_000) == [.ping(attempt: 1)])
        #expect(bench.pass(30_001) == [])
        #expect(bench.pass(60_000) == [.ping(attempt: 1)])
        #expect(bench.pass(74_999) == [])
        #expect(bench.pass(75_000) == [.close(attempt: 1, code: 1001, reason: ""), .disconnected(.silent)])
    }

    @Test func anyReceivedBytesDelayThePing() throws {
        var bench = try MachineBench.connected()
        for now in stride(from: Int64(20_000), through: 400_000, by: 20_000) {
            bench.machine.receivedBytes(attempt: 1, now: now)
            #expect(bench.pass(now) == [])
        }
        _ = bench.receive(text: #"{"type":"from.the.future"}"#, now: 410_000)
        #expect(bench.machine.deadline == 440_000)
    }

    @Test func intervalsOfTheRelayAreClamped() throws {
        let welcome = RelayMessage.Welcome(limits: Limits(), intervals: .init(ping: 0, dead: 0), urls: [], features: [])
        let bench = try MachineBench.connected(welcome: welcome)
        #expect(bench.machine.deadline == 1_000)
        let slow = RelayMessage.Welcome(
            limits: Limits(),
            intervals: .init(ping: 9_007_199_254_740_991, dead: 9_007_199_254_740_991),
            urls: [],
            features: []
        )
        #expect(try MachineBench.connected(welcome: slow).machine.deadline == 600_000)
    }

    @Test func connectionIsRetriedAtOnceAfterSleep() throws {
        var bench = try MachineBench.connected()
        #expect(bench.pass(9_000_000).last == .disconnected(.silent))
        #expect(try (9_000_000...9_000_500).contains(#require(bench.waitingUntil)))
    }

    // MARK: The token

    @Test func expiringTokenIsRefreshed() throws {
        var bench = try MachineBench.connected()
        #expect(try bench.receive(.authExpiring(.init(expires: 60_000)), now: 5) == [.requestToken(attempt: 1)])
        #expect(try bench.receive(.authExpiring(.init(expires: 60_000)), now: 5) == [])
        let actions = bench.machine.tokenReady(attempt: 1, Secret("next"), now: 6)
        guard case .authRefresh(let refresh)? = actions.first?.message else {
            Issue.record("\(actions)")
            return
        }
        #expect(refresh.token == Secret("next"))
        #expect(try bench.receive(.ok(.init(ref: refresh.ref)), now: 7) == [])
        #expect(try bench.receive(.authExpiring(.init(expires: 60_000)), now: 8) == [.requestToken(attempt: 1)])
    }

    @Test func transientRefreshFailureIsRetried() throws {
        var bench = try MachineBench.connected()
        _ = try bench.receive(.authExpiring(.init(expires: 60_000)), now: 0)
        #expect(bench.machine.tokenFailed(attempt: 1, isTransient: true, now: 0, random: &bench.random) == [])
        #expect(bench.pass(10_000) == [.requestToken(attempt: 1)])
        #expect(bench.machine.tokenFailed(attempt: 1, isTransient: false, now: 0, random: &bench.random) == [])
        #expect(bench.machine.status == .connected)
    }

    @Test func invalidatedTokenIsDiscarded() throws {
        var bench = try MachineBench.connected()
        let actions = try bench.receive(.authInvalidated(.init(code: .tokenRevoked, message: "")), now: 5)
        #expect(actions.first == .invalidateToken)
        #expect(actions.last == .disconnected(.tokenInvalidated(.tokenRevoked)))
        #expect(bench.waitingUntil != nil)
        var revoked = try MachineBench.connected()
        _ = try revoked.receive(.authInvalidated(.init(code: .endpointRevoked, message: "")), now: 5)
        #expect(revoked.machine.status == .stopped(.tokenInvalidated(.endpointRevoked)))
    }

    @Test func missingTokenPreventsDialing() {
        var bench = MachineBench()
        _ = bench.machine.start(now: 0)
        #expect(
            bench.machine.tokenFailed(attempt: 1, isTransient: false, now: 0, random: &bench.random)
                == [.disconnected(.noAccessToken(isTransient: false))]
        )
        #expect(bench.machine.deadline == nil)
        #expect(bench.machine.start(now: 5) == [.requestToken(attempt: 2)])
        _ = bench.machine.tokenFailed(attempt: 2, isTransient: true, now: 5, random: &bench.random)
        #expect(bench.waitingUntil != nil)
    }

    // MARK: Coming back

    @Test func replacedHostDoesNotReconnect() throws {
        var bench = try MachineBench.connected()
        let ref = try bench.watch()
        #expect(
            try bench.receive(.replaced(.init()), now: 5)
                == [.close(attempt: 1, code: 1000, reason: ""), .answer(ref, .connectionLost), .disconnected(.endpointInUse)]
        )
        #expect(bench.machine.deadline == nil)
        #expect(bench.machine.networkChanged(now: 9, random: &bench.random) == [])
    }

    @Test func restartDelayOfTheRelayIsRespected() throws {
        for seed in UInt64(0)..<50 {
            var bench = try MachineBench.connected()
            bench.random = SeededGenerator(seed: seed)
            _ = try bench.receive(.restarting(.init(after: 5_000, spread: 10_000)), now: 100_000)
            let until = try #require(bench.waitingUntil)
            #expect((105_000...115_500).contains(until), "seed \(seed)")
            #expect(bench.machine.networkChanged(now: 101_000, random: &bench.random) == [], "seed \(seed)")
            #expect(try #require(bench.waitingUntil) >= 105_000, "seed \(seed)")
        }
    }

    @Test func retryAfterIsRespectedUpToAnHour() throws {
        var bench = MachineBench()
        _ = bench.machine.start(now: 0)
        _ = bench.machine.tokenReady(attempt: 1, MachineBench.token, now: 0)
        _ = bench.machine.dialFailed(attempt: 1, .status(503, retryAfter: 30_000), now: 0, random: &bench.random)
        // A proxy says the same to all.
        #expect(try (30_000...60_500).contains(#require(bench.waitingUntil)))
        _ = bench.pass(61_000)
        _ = bench.machine.tokenReady(attempt: 2, MachineBench.token, now: 61_000)
        _ = bench.machine.dialFailed(attempt: 2, .status(503, retryAfter: .max), now: 61_000, random: &bench.random)
        #expect(try #require(bench.waitingUntil) <= 61_000 + 3_600_000 + 500)
    }

    @Test(arguments: [700, 2_500, 8_000, 15_000] as [Int64])
    func reconnectDelayIsBoundedByTheAbsence(absence: Int64) throws {
        var dials: [Int64] = []
        for seed in 0..<300 as Range<UInt64> {
            var bench = MachineBench(seed: seed)
            _ = bench.machine.start(now: 0)
            var now: Int64 = 0
            while now <= absence {
                _ = bench.machine.tokenReady(attempt: bench.machine.attempt, MachineBench.token, now: now)
                let failure = DialFailure.unreachable("nothing answers there")
                _ = bench.machine.dialFailed(attempt: bench.machine.attempt, failure, now: now, random: &bench.random)
                now = try #require(bench.waitingUntil)
                _ = bench.pass(now)
            }
            #expect(now <= max(2 * absence, absence + 500))
            dials.append(now - absence)
        }
        // Not all of them at once either.
        #expect(dials.filter { $0 < max(absence, 500) / 4 }.count < 200)
    }

    @Test func backoffIsResetOnlyByALastingConnection() throws {
        var bench = MachineBench(seed: 7)
        _ = bench.machine.start(now: 0)
        var now: Int64 = 0
        var longest: Int64 = 0
        while now < 4 * 60_000 {
            _ = bench.machine.tokenReady(attempt: bench.machine.attempt, MachineBench.token, now: now)
            _ = bench.machine.dialFailed(attempt: bench.machine.attempt, .timedOut, now: now, random: &bench.random)
            let until = try #require(bench.waitingUntil)
            longest = max(longest, until - now)
            now = until
            _ = bench.pass(now)
        }
        #expect((7_500...15_000).contains(longest))
        for _ in 0..<80 {
            _ = bench.machine.tokenReady(attempt: bench.machine.attempt, MachineBench.token, now: now)
            _ = bench.machine.dialFailed(attempt: bench.machine.attempt, .timedOut, now: now, random: &bench.random)
            let until = try #require(bench.waitingUntil)
            longest = max(longest, until - now)
            now = until
            _ = bench.pass(now)
        }
        #expect((30_000...60_000).contains(longest))
        // A connection of 29 s is no success, one of 30 s is.
        var waits: [Int64] = []
        for _ in 0..<40 {
            try bench.completeHello(now: now)
            now += 29_000
            _ = bench.machine.closed(attempt: bench.machine.attempt, code: nil, now: now, random: &bench.random)
            waits.append(try #require(bench.waitingUntil) - now)
            now = try #require(bench.waitingUntil)
            _ = bench.pass(now)
        }
        #expect(try #require(waits.max()) > 15_000)
        for _ in 0..<20 {
            try bench.completeHello(now: now)
            now += 30_000
            bench.machine.receivedBytes(attempt: bench.machine.attempt, now: now)
            _ = bench.machine.closed(attempt: bench.machine.attempt, code: nil, now: now, random: &bench.random)
            #expect(try #require(bench.waitingUntil) - now <= 500)
            now = try #require(bench.waitingUntil)
            _ = bench.pass(now)
        }
    }

    @Test func networkChangeRetriesAtOnce() throws {
        var bench = MachineBench()
        _ = bench.machine.start(now: 0)
        for _ in 0..<10 {
            _ = bench.machine.tokenReady(attempt: bench.machine.attempt, MachineBench.token, now: 0)
            _ = bench.machine.dialFailed(attempt: bench.machine.attempt, .timedOut, now: 0, random: &bench.random)
            _ = bench.pass(try #require(bench.waitingUntil))
        }
        _ = bench.machine.tokenReady(attempt: bench.machine.attempt, MachineBench.token, now: 100_000)
        _ = bench.machine.dialFailed(attempt: bench.machine.attempt, .timedOut, now: 100_000, random: &bench.random)
        let next = bench.machine.attempt + 1
        #expect(bench.machine.networkChanged(now: 100_001, random: &bench.random) == [.requestToken(attempt: next)])
        // A new attempt continues; an old one is started again.
        _ = bench.machine.tokenReady(attempt: next, MachineBench.token, now: 100_002)
        #expect(bench.machine.networkChanged(now: 100_003, random: &bench.random) == [])
        #expect(
            bench.machine.networkChanged(now: 102_000, random: &bench.random)
                == [.close(attempt: next, code: 1000, reason: ""), .disconnected(.networkChanged), .requestToken(attempt: next + 1)]
        )
    }

    @Test func networkChangeProbesTheConnection() throws {
        var bench = try MachineBench.connected()
        #expect(bench.machine.networkChanged(now: 1_000, random: &bench.random) == [.ping(attempt: 1)])
        #expect(bench.machine.networkChanged(now: 1_001, random: &bench.random) == [])
        #expect(bench.machine.deadline == 6_000)
        var alive = bench
        alive.machine.receivedBytes(attempt: 1, now: 1_200)
        #expect(alive.pass(6_000) == [])
        #expect(bench.pass(6_000).last == .disconnected(.silent))
    }

    @Test func relayURLsAreTriedInTurn() throws {
        let welcome = RelayMessage.Welcome(limits: Limits(), intervals: .init(), urls: ["https://b", "https://c"], features: [])
        var bench = try MachineBench.connected(welcome: welcome)
        _ = bench.machine.closed(attempt: 1, code: nil, now: 0, random: &bench.random)
        var urls: [String?] = []
        for _ in 0..<4 {
            _ = bench.pass(try #require(bench.waitingUntil))
            for case .dial(_, let url) in bench.machine.tokenReady(attempt: bench.machine.attempt, MachineBench.token, now: 0) {
                urls.append(url)
            }
            _ = bench.machine.dialFailed(attempt: bench.machine.attempt, .timedOut, now: 0, random: &bench.random)
        }
        #expect(urls == [nil, "https://b", "https://c", nil])
    }

    // MARK: Leaving

    @Test func hostSendsLeavingBeforeItCloses() throws {
        var bench = try MachineBench.connected()
        let pending = try bench.watch()
        let actions = bench.machine.leave(.suspended, now: 5)
        guard case .leaving(let leaving)? = actions.first?.message else {
            Issue.record("\(actions)")
            return
        }
        #expect(leaving.reason == .suspended)
        #expect(throws: ControlSendError.notConnected) { try bench.watch() }
        #expect(
            try bench.receive(.ok(.init(ref: leaving.ref)), now: 6)
                == [.close(attempt: 1, code: 1000, reason: ""), .answer(pending, .connectionLost), .disconnected(.suspended)]
        )
        #expect(bench.machine.status == .stopped(.suspended))
        #expect(bench.machine.start(now: 9) == [.requestToken(attempt: 2)])
    }

    @Test func unansweredLeavingTimesOut() throws {
        var bench = try MachineBench.connected()
        _ = bench.machine.leave(.suspended, now: 5)
        #expect(bench.pass(2_005) == [.close(attempt: 1, code: 1000, reason: ""), .disconnected(.suspended)])
    }

    @Test func startWhileLeavingReconnects() throws {
        var bench = try MachineBench.connected()
        _ = bench.machine.leave(.suspended, now: 5)
        #expect(bench.machine.start(now: 6) == [])
        #expect(
            bench.machine.closed(attempt: 1, code: 1000, now: 7, random: &bench.random)
                == [.disconnected(.suspended), .requestToken(attempt: 2)]
        )
    }

    @Test func clientClosesWithoutLeaving() throws {
        var bench = try MachineBench.connected(role: .client)
        #expect(bench.machine.leave(.shutdown, now: 5) == [.close(attempt: 1, code: 1000, reason: ""), .disconnected(.suspended)])
        var waiting = MachineBench()
        _ = waiting.machine.start(now: 0)
        #expect(waiting.machine.leave(.suspended, now: 0) == [.disconnected(.suspended)])
        #expect(waiting.machine.tokenReady(attempt: 1, MachineBench.token, now: 1) == [])
    }

    // MARK: Bad frames

    @Test(arguments: ["", "[]", "{}", "{\"type\":7}", "{\"type\":\"ok\"}", "\u{FEFF}{}", "{\"type\":\"ok\",\"ref\":-1}"])
    func malformedFrameClosesTheConnection(_ text: String) throws {
        var bench = try MachineBench.connected()
        let actions = bench.receive(text: text, now: 5)
        guard case .close(attempt: 1, code: 1007, _)? = actions.first else {
            Issue.record("\(actions)")
            return
        }
        #expect(bench.waitingUntil != nil)
    }

    @Test func frameSizeLimitOfTheRelayApplies() throws {
        var limits = Limits()
        limits[.controlFrameBytes] = 100 << 20
        var bench = try MachineBench.connected(
            welcome: RelayMessage.Welcome(limits: limits, intervals: .init(), urls: [], features: [])
        )
        let large = String(repeating: " ", count: 3 << 20)
        #expect(bench.receive(text: large + #"{"type":"from.the.future"}"#, now: 1) == [])
        let actions = bench.receive(text: large + large, now: 1)
        guard case .close(attempt: 1, code: 1009, _)? = actions.first else {
            Issue.record("\(actions)")
            return
        }
    }
}

extension CommandID {
    static var sample: CommandID {
        var (ids, random) = (CommandIDGenerator(), SeededGenerator(seed: 1))
        return ids.next(now: 1, using: &random)
    }
}
