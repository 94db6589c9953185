// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayServer
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(10))) struct ControlChannelTests {
    static func watch(_ number: Int64) throws -> EndpointMessage {
        .watch(EndpointMessage.Watch(ref: try #require(RequestRef(number))))
    }

    static func ref(_ number: Int64) throws -> RequestRef { try #require(RequestRef(number)) }

    @Test func requestsReachTheCoreInOrderAndAreAnswered() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            for number in 1...50 as ClosedRange<Int64> {
                try await client.send(.unwatch(EndpointMessage.Unwatch(ref: try Self.ref(number))))
            }
            for number in 1...50 as ClosedRange<Int64> {
                #expect(try await client.message() == .ok(RelayMessage.OK(ref: try Self.ref(number))))
            }
            #expect(relay.core.received.map { $0.ref?.number ?? 0 } == Array(1...50))
        }
    }

    @Test func unknownRequestsAreAnsweredAndUnknownStatementsIgnored() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            try await client.send(text: #"{"type":"new.statement"}"#)
            try await client.send(text: #"{"type":"new.request","ref":7}"#)
            guard case .failure(let failure) = try await client.message() else { throw TestWebSocket.NotUpgraded(answer: "") }
            #expect(failure.code == .unknownType)
            #expect(failure.ref.number == 7)
        }
    }

    @Test func closedChannelIsDisconnectedAtOnce() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            await client.socket.close()
            #expect(try await eventually { relay.core.disconnected.count == 1 })
            #expect(Array(relay.core.disconnected.values) == [false])
        }
    }

    @Test func silentChannelIsPingedAndThenClosed() async throws {
        let intervals = RelayMessage.Welcome.Intervals(ping: 500, dead: 5_000)
        try await TestRelay.with(intervals: intervals) { relay in
            let client = try await TestWebSocket.welcomed(relay)
            #expect(await client.frame() == .ping)
            #expect(await client.closeCode() == 1001)
            #expect(try await eventually { Array(relay.core.disconnected.values) == [true] })
        }
    }

    @Test func channelThatAnswersPingsStaysOpen() async throws {
        let intervals = RelayMessage.Welcome.Intervals(ping: 200, dead: 20_000)
        try await TestRelay.with(intervals: intervals) { relay in
            let client = try await TestWebSocket.welcomed(relay)
            for _ in 0..<4 {
                #expect(await client.frame() == .ping)
                try await client.send(opcode: 10, [])
            }
            #expect(relay.core.disconnected.isEmpty)
        }
    }

    @Test func tokenExpiryIsAnnouncedAndThenClosesTheChannel() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay, token: FixedTokens.short)
            var message = try await client.message()
            // On a busy machine the token may end first. The tests of the state machine check the announcement.
            if case .authExpiring = message { message = try await client.message() }
            guard case .authInvalidated(let invalidated) = message else { throw TestWebSocket.NotUpgraded(answer: "") }
            #expect(invalidated.code == .tokenExpired)
            #expect(await client.closeCode() == 1008)
        }
    }

    @Test func refreshedTokenIsTakenAndTokenOfAnotherAccountIsRejected() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            try await client.send(.authRefresh(EndpointMessage.AuthRefresh(ref: try Self.ref(1), token: Secret(FixedTokens.good))))
            #expect(try await client.message() == .ok(RelayMessage.OK(ref: try Self.ref(1))))
            try await client.send(.authRefresh(EndpointMessage.AuthRefresh(ref: try Self.ref(2), token: Secret(FixedTokens.other))))
            guard case .failure(let failure) = try await client.message() else { throw TestWebSocket.NotUpgraded(answer: "") }
            #expect(failure.code == .wrongAccount)
            #expect(relay.core.disconnected.isEmpty)
        }
    }

    @Test func coreCanSendAMessageAndThenClose() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            let peer = try #require(relay.core.connected.first).peer
            peer.send(.replaced(RelayMessage.Replaced()))
            peer.close(code: 4000, reason: "replaced")
            #expect(try await client.message() == .replaced(RelayMessage.Replaced()))
            #expect(await client.frame() == .close(code: 4000, reason: "replaced"))
            #expect(try await eventually { relay.core.disconnected.count == 1 })
        }
    }

    @Test func rateIsSharedByAllChannelsOfAnEndpoint() async throws {
        // The clock stands, or a slow machine would let one more pass.
        let moment = RelayClock.system.now()
        try await TestRelay.with(clock: RelayClock { moment }, configure: { $0.limits[.watchesPerSecond] = 1 }) { relay in
            let endpoint = TransportTestEndpoint()
            let first = try await TestWebSocket.welcomed(relay, endpoint: endpoint)
            let second = try await TestWebSocket.welcomed(relay, endpoint: endpoint)
            for number in 1...10 as ClosedRange<Int64> {
                let client = number % 2 == 0 ? first : second
                try await client.send(try Self.watch(number))
                #expect(try await client.message() == .ok(RelayMessage.OK(ref: try Self.ref(number))))
            }
            try await first.send(try Self.watch(11))
            guard case .failure(let failure) = try await first.message() else { throw TestWebSocket.NotUpgraded(answer: "") }
            #expect(failure.code == .tooManyRequests)
            #expect(failure.limit?.name == "watchesPerSecond")
            #expect(failure.limit?.allowed == 1)
            #expect((failure.retryAfter ?? 0) > 0)
            #expect(relay.core.received.count == 10)
            // Another endpoint is not held to it.
            let other = try await TestWebSocket.welcomed(relay)
            try await other.send(try Self.watch(1))
            #expect(try await other.message() == .ok(RelayMessage.OK(ref: try Self.ref(1))))
        }
    }

    @Test func peerIsCalledWhenAMessageHasLeft() async throws {
        @Sendable func failure(_ length: Int) -> RelayMessage {
            .failure(.init(ref: .first, code: .internalError, message: String(repeating: "a", count: length)))
        }
        let core = RecordingCore()
        try await TestRelay.with(core: core, configure: { $0.outboundBytes = 1 << 30 }) { relay in
            let client = try await TestWebSocket.welcomed(relay)
            try await client.socket.stopReading()
            let peer = try #require(core.connected.first).peer
            let written = Atomic(0)
            @Sendable func send(_ message: RelayMessage) { peer.send(message) { written.add(1, ordering: .relaxed) } }
            send(failure(1))
            #expect(try await eventually { written.load(ordering: .relaxed) == 1 })
            // More than all buffers of the system between the two hold.
            let (big, count) = (failure(256 << 10), 160)
            for _ in 0..<count { send(big) }
            #expect(written.load(ordering: .relaxed) < 1 + count)
            try await client.socket.startReading()
            for _ in 0..<1 + count {
                guard case .text = await client.frame() else { throw TestWebSocket.NotUpgraded(answer: "") }
            }
            #expect(try await eventually { written.load(ordering: .relaxed) == 1 + count })
            // A message that cannot be sent is not waited for.
            send(failure(1 << 20))
            #expect(try await eventually { written.load(ordering: .relaxed) == 2 + count })
            await client.socket.close()
            #expect(try await eventually { core.disconnected.count == 1 })
            send(big)
            #expect(try await eventually { written.load(ordering: .relaxed) == 3 + count })
        }
    }

    @Test func channelThatDoesNotReadIsClosed() async throws {
        let big = RelayMessage.Failure(ref: .first, code: .internalError, message: String(repeating: "a", count: 64 << 10))
        let core = RecordingCore()
        try await TestRelay.with(core: core, configure: { $0.outboundBytes = 1 << 16 }) { relay in
            let endpoint = TransportTestEndpoint()
            let client = try await TestWebSocket.welcomed(relay, endpoint: endpoint)
            try await client.socket.stopReading()
            let peer = try #require(core.connected.first).peer
            // More than all buffers of the system between the two hold.
            for _ in 0..<2_000 where core.disconnected.isEmpty { peer.send(.failure(big)) }
            #expect(try await eventually { core.disconnected.count == 1 })
        }
    }
}
