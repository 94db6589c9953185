// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
import Testing

@testable import DeviceRelay

/// The connections of a control link to a relay, over sockets.
@Suite(.timeLimit(.minutes(5))) struct ControlLinkTests {
    private enum Event: Hashable {
        case connected
        case disconnected(DisconnectReason)
        case message(RelayMessage)
    }

    /// A link with the storage guard that disconnects it. The clocks show the test's time.
    private actor World {
        nonisolated static let wallTime: Int64 = 1_800_000_000_000

        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let events = CurrentValue<[Event]>([])
        private nonisolated let time: Shared<Int64>
        private let storage: StorageGuard
        private let link: ControlLink

        init(_ relay: ScriptedRelay, _ directory: TemporaryDirectory) throws {
            let time = Shared<Int64>(1_000_000)
            self.time = time
            endpoint = try .sample(directory, relay: relay.url, id: relay.id) {
                $0.clock = PlatformClock(wall: { Self.wallTime }, steady: { time.value })
            }
            let own = JournalTransaction.OwnEndpoint(account: "account", record: nil, hasEnumerated: false)
            let clock = RelayClock(endpoint.loop, endpoint.journal, offset: 0)
            storage = StorageGuard(endpoint.loop, endpoint.journal, endpoint.logger)
            let identity = OwnIdentity(endpoint, stored: own, invitationProof: nil)
            link = ControlLink(endpoint, clock: clock, storage: storage, identity: identity, relayURLs: [])
            link.onEvent = { [events] event in
                events.update {
                    switch event {
                    case .connected: $0.append(.connected)
                    case .disconnected(let reason): $0.append(.disconnected(reason))
                    case .message(let message): $0.append(.message(message))
                    }
                }
            }
            storage.onFailure = { [weak link] _ in link?.leave(because: ConnectionError(.storageFailed, "it is gone")) }
        }

        /// The state after the link has handled the latest event.
        var state: ConnectionState { endpoint.status.value.state }

        /// The milliseconds until the next attempt, if there is one.
        var pause: Int64? {
            guard case .waiting(let until) = state.phase else { return nil }
            return Int64((until.timeIntervalSince1970 * 1_000).rounded()) - Self.wallTime
        }

        func start() { link.start() }

        func startAgain() { link.startAgain(atOnce: true) }

        func retryNow() { link.retryNow() }

        func becomeHost() -> Bool { link.becomeHost() }

        func leave() async {
            link.leave(.suspended)
            await link.closed()
        }

        /// Moves the steady clock.
        nonisolated func pass(_ milliseconds: Int64) { time.withLock { $0 += milliseconds } }

        /// Returns after the loop's timers of this time have run.
        nonisolated func runTimers(of milliseconds: Int64) async throws {
            try await endpoint.loop.eventLoop.scheduleTask(in: .milliseconds(milliseconds + 1)) {}.futureResult.get()
        }

        func failStorage() { storage.fail(CancellationError()) }

        /// Sends a request.
        func request() -> CurrentValue<[ControlAnswer]> {
            let answers = CurrentValue<[ControlAnswer]>([])
            link.request {
                .unpublish(.init(ref: $0, appID: "player"))
            } answer: { answer in
                answers.update { $0.append(answer) }
            }
            return answers
        }

        /// Waits until there were this many events of a kind.
        nonisolated func has(_ count: Int, _ matches: @escaping @Sendable (Event) -> Bool) async {
            _ = await events.first { $0.count(where: matches) >= count }
        }

        nonisolated func connected(_ count: Int = 1) async { await has(count) { $0 == .connected } }

        nonisolated func disconnected(_ count: Int = 1) async {
            await has(count) { if case .disconnected = $0 { true } else { false } }
        }

        func end() async {
            await leave()
            link.end()
            storage.end()
            await endpoint.loop.end()
            endpoint.journal.close()
        }
    }

    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func with(_ body: (World, ScriptedRelay) async throws -> Void) async throws {
        let relay = try await ScriptedRelay()
        let world = try World(relay, directory)
        try await body(world, relay)
        await world.end()
        await relay.stop()
    }

    private func hello(_ message: EndpointMessage) -> EndpointMessage.Hello? {
        if case .hello(let hello) = message { hello } else { nil }
    }

    @Test func startedLinkConnects() async throws {
        try await with { world, relay in
            await world.start()
            await world.connected()
            #expect(await world.state == ConnectionState(phase: .connected, problem: nil))
            let hello = try await relay.next(hello)
            #expect(hello.role == .client)
            #expect(hello.origin == relay.url)
            #expect(try Signed<EndpointRecord>(verifying: hello.record.bytes).payload.endpointID == world.endpoint.id)
            relay.send(.enumerationCompleted(.init()))
            await world.has(1) { $0 == .message(.enumerationCompleted(.init())) }
        }
    }

    @Test func linkThatIsNotStartedStaysStopped() async throws {
        try await with { world, _ in
            await world.retryNow()
            #expect(await world.state.phase == .stopped)
            #expect(await !world.becomeHost())
            #expect(await world.state.phase == .stopped)
        }
    }

    @Test func linkThatWasLeftStaysStopped() async throws {
        try await with { world, relay in
            await world.start()
            await world.connected()
            await world.leave()
            #expect(await world.state.phase == .stopped)
            #expect(await world.state.problem?.code == .suspended)
            await world.retryNow()
            #expect(await world.state.phase == .stopped)
            await world.start()
            await world.connected(2)
            #expect(world.events.value == [.connected, .disconnected(.suspended), .connected])
            #expect(relay.connectionCount == 2)
        }
    }

    @Test func hostConnectsWithItsRole() async throws {
        try await with { world, relay in
            await world.start()
            await world.connected()
            #expect(await world.becomeHost())
            await world.start()
            await world.connected(2)
            let roles = [try await relay.next(hello).role, try await relay.next(hello).role]
            #expect(roles == [.client, .host])
        }
    }

    @Test func connectionThatWasLeftIsClosedWhenTheNextOneBegins() async throws {
        try await with { world, relay in
            #expect(await !world.becomeHost())
            await world.start()
            await world.connected()
            relay.skipNextLeaving()
            let leaving = Task { await world.leave() }
            let message = try await relay.next { if case .leaving(let message) = $0 { message } else { nil } }
            await world.start()
            relay.send(.ok(.init(ref: message.ref)))
            await world.connected(2)
            // These return once no connection is open.
            await world.leave()
            await leaving.value
        }
    }

    // MARK: Reconnecting

    @Test func closedConnectionIsOpenedAgainAfterAPause() async throws {
        try await with { world, relay in
            await world.start()
            var (pause, count) = (Int64(0), 0)
            // A random pause may be zero.
            while pause == 0, count < 8 {
                count += 1
                await world.connected(count)
                relay.hangUp()
                await world.disconnected(count)
                pause = await world.pause ?? 0
            }
            #expect((1...500).contains(pause))
            #expect(await world.state.problem?.code == .connectionLost)
            // The timers fire, but the clock stands still.
            try await world.runTimers(of: pause)
            #expect(await world.pause == pause)
            #expect(relay.connectionCount == count)
            world.pass(pause)
            await world.connected(count + 1)
            #expect(await world.state == ConnectionState(phase: .connected, problem: nil))
        }
    }

    @Test func requestOfALostConnectionIsAnsweredOnce() async throws {
        try await with { world, relay in
            relay.script.withLock { $0.answers = { if case .unpublish = $0 { [] } else { nil } } }
            #expect(await world.request().value == [.connectionLost])
            await world.start()
            await world.connected()
            let answers = await world.request()
            _ = try await relay.next { if case .unpublish(let message) = $0 { message.ref } else { nil } }
            #expect(answers.value.isEmpty)
            relay.hangUp()
            await world.disconnected()
            #expect(answers.value == [.connectionLost])
        }
    }

    @Test func requestThatWaitsForRoomIsAnsweredWhenTheConnectionIsLost() async throws {
        try await with { world, relay in
            relay.script.withLock { $0.answers = { if case .unpublish = $0 { [] } else { nil } } }
            await world.start()
            await world.connected()
            var answers: [CurrentValue<[ControlAnswer]>] = []
            for _ in 0..<EndpointChannelStateMachine.maximumRequests + 3 { answers.append(await world.request()) }
            relay.hangUp()
            await world.disconnected()
            #expect(answers.allSatisfy { $0.value == [.connectionLost] })
        }
    }

    // MARK: Rejections

    private func reject(_ relay: ScriptedRelay, _ rejected: RelayMessage.Rejected?) {
        relay.script.withLock { script in
            script.answers = { message in
                guard case .hello = message, let rejected else { return nil }
                return [.rejected(rejected)]
            }
        }
    }

    @Test func rejectedHelloIsReported() async throws {
        try await with { world, relay in
            let rejected = RelayMessage.Rejected(code: .accountUnknown, message: "", retry: false)
            reject(relay, rejected)
            await world.start()
            await world.disconnected()
            #expect(world.events.value == [.disconnected(.rejected(rejected))])
            #expect(await world.state.phase == .stopped)
            #expect(await world.state.problem?.code == .accountUnknown)
            await world.retryNow()
            #expect(await world.state.phase == .stopped)
            reject(relay, nil)
            await world.startAgain()
            await world.connected()
            #expect(await world.state == ConnectionState(phase: .connected, problem: nil))
        }
    }

    @Test func pauseOfARejectionIsObeyed() async throws {
        try await with { world, relay in
            reject(relay, .init(code: .unavailable, message: "", retry: true, retryAfter: Milliseconds(clamping: 60_000)))
            await world.start()
            await world.disconnected()
            let pause = try #require(await world.pause)
            #expect((60_000...60_500).contains(pause))
            // A change of the network does not end it.
            await world.retryNow()
            #expect(await world.pause == 60_000)
            reject(relay, nil)
            world.pass(60_000)
            await world.retryNow()
            await world.connected()
        }
    }

    @Test func linkDoesNotConnectWithoutItsStorage() async throws {
        try await with { world, relay in
            try FileManager.default.removeItem(atPath: "\(directory.path)/storage")
            await world.start()
            await world.disconnected()
            #expect(await world.pause == StorageGuard.firstPause)
            #expect(await world.state.problem?.code == .storageFailed)
            await world.retryNow()
            #expect(await world.pause == StorageGuard.firstPause)
            #expect(!world.events.value.contains(.connected))
        }
    }

    @Test(arguments: [false, true]) func storageFailureIsReportedUntilTheNextStart(isHost: Bool) async throws {
        try await with { world, _ in
            if isHost { #expect(await !world.becomeHost()) }
            await world.start()
            await world.connected()
            await world.failStorage()
            await world.disconnected()
            #expect(await world.pause == StorageGuard.firstPause)
            #expect(await world.state.problem?.code == .storageFailed)
            await world.start()
            await world.connected(2)
            await world.leave()
            await world.disconnected(2)
            #expect(await world.state.problem?.code == .suspended)
        }
    }
}
