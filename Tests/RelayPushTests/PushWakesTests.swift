// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayServer
import Testing

@testable import RelayComposition
@testable import RelayPush

/// What the relay's core is told about its wakes.
@Suite(.timeLimit(.minutes(1))) struct PushWakesTests {
    private let time = TestTime()
    private let clock = ManualClock()

    private struct Outcome: Equatable {
        let request: Int
        let outcome: WakeOutcome
    }

    /// The wakes of an app, with a credential whose channel the test answers for.
    private struct World {
        let wakes: PushWakes
        let registry: AppRegistry
        let pushes: AsyncStream<ScriptedChannel.Push>
        let outcomes: AsyncStream<Outcome>
        fileprivate let outcome: AsyncStream<Outcome>.Continuation
        let time: TestTime

        func add(_ project: String) async throws {
            let credential = StoredCredential.fcm(project: project, clientEmail: "me@example.org", key: Secret("key"))
            _ = try await registry.add(credential, to: AppIdentity.defaultID)
            await wakes.reload()
        }

        func wake(_ request: Int, _ token: String, registered: Milliseconds = 1) {
            let wake = WakeRequest(
                account: AccountID("account"),
                payload: Wake.test(1, expiry: 0).payload,
                appID: "org.example.app",
                displayName: "",
                channel: .test(fcm: token),
                registered: registered,
                expires: Milliseconds(clamping: time.now.count + 86_400_000)
            )
            wakes.wake(wake) { outcome.yield(Outcome(request: request, outcome: $0)) }
        }
    }

    private func withWakes(_ body: (World) async throws -> Void) async throws {
        let channel = ScriptedChannel()
        let now: @Sendable () -> Milliseconds = { [time] in time.now }
        let registry = AppRegistry(store: try SQLiteStore(), key: RelayKey(), now: now)
        let wakes = PushWakes(
            registry: registry,
            metrics: PrometheusMetrics(),
            clock: WakeClock(uptime: { [clock] in clock.now }, time: now, sleep: { [clock] in await clock.sleep(until: $0) }),
            now: now,
            logger: Logger(label: "wakes") { _ in SwiftLogNoOpLogHandler() },
            makeChannel: { _, _ in channel }
        )
        let (outcomes, outcome) = AsyncStream.makeStream(of: Outcome.self)
        let world = World(
            wakes: wakes,
            registry: registry,
            pushes: channel.pushes,
            outcomes: outcomes,
            outcome: outcome,
            time: time
        )
        await wakes.prepare()
        try await world.add("first")
        let run = Task { await wakes.run() }
        let result: Result<Void, any Error>
        do { result = .success(try await body(world)) } catch { result = .failure(error) }
        run.cancel()
        await run.value
        try result.get()
    }

    @Test(arguments: [(PushOutcome.accepted(id: nil), WakeOutcome.accepted), (.gone(since: nil), .gone(since: nil))])
    func anOutcomeIsNotThatOfALaterRegistration(_ outcome: PushOutcome, _ told: WakeOutcome) async throws {
        try await withWakes { world in
            var (pushes, outcomes) = (world.pushes.makeAsyncIterator(), world.outcomes.makeAsyncIterator())
            world.wake(1, "old")
            let old = try #require(await pushes.next())
            world.wake(2, "new", registered: 2)
            old.end(outcome)
            #expect(await outcomes.next() == Outcome(request: 1, outcome: told))
            let new = try #require(await pushes.next())
            #expect(new.registration == .test(fcm: "new"))
            new.end(.dropped(reason: "off"))
            #expect(await outcomes.next() == Outcome(request: 2, outcome: .refused(until: nil)))
        }
    }

    @Test func anOutcomeIsNotThatOfARequestAfterAConnection() async throws {
        try await withWakes { world in
            var (pushes, outcomes) = (world.pushes.makeAsyncIterator(), world.outcomes.makeAsyncIterator())
            world.wake(1, "token")
            let first = try #require(await pushes.next())
            world.wakes.connected(.test(1), of: AccountID("account"))
            #expect(await outcomes.next() == Outcome(request: 1, outcome: .failed(reason: "connected")))
            world.wake(2, "token")
            first.end(.accepted(id: nil))
            let second = try #require(await pushes.next())
            second.end(.gone(since: nil))
            #expect(await outcomes.next() == Outcome(request: 2, outcome: .gone(since: nil)))
        }
    }

    /// What was ordered before another node took the account is not sent again, and says nothing of what is ordered after it is back.
    @Test func wakesOfAnAccountThatIsGoneAreForgotten() async throws {
        try await withWakes { world in
            var (pushes, outcomes) = (world.pushes.makeAsyncIterator(), world.outcomes.makeAsyncIterator())
            world.wake(1, "token")
            let first = try #require(await pushes.next())
            #expect(world.wakes.hasWakes(of: AccountID("account")) && !world.wakes.hasWakes(of: AccountID("another")))
            world.wakes.forget(AccountID("another"))
            #expect(world.wakes.hasWakes(of: AccountID("account")))
            world.wakes.forget(AccountID("account"))
            #expect(!world.wakes.hasWakes(of: AccountID("account")))
            world.wake(2, "new", registered: 2)
            first.end(.failed(reason: "network"))
            let second = try #require(await pushes.next())
            #expect(second.registration == .test(fcm: "new"))
            second.end(.accepted(id: nil))
            #expect(await outcomes.next() == Outcome(request: 2, outcome: .accepted))
        }
    }

    @Test func aStoppedCredentialSuppressesWakesUntilItsEnd() async throws {
        try await withWakes { world in
            var (pushes, outcomes) = (world.pushes.makeAsyncIterator(), world.outcomes.makeAsyncIterator())
            let end = Milliseconds(clamping: time.now.count + 3_600_000)
            world.wake(1, "token")
            try #require(await pushes.next()).end(.misconfigured(reason: "topic"))
            #expect(await outcomes.next() == Outcome(request: 1, outcome: .suppressed(until: end)))
            world.wake(2, "token")
            #expect(await outcomes.next() == Outcome(request: 2, outcome: .suppressed(until: end)))
            #expect(world.wakes.wakeable.hasCredential(.fcm, "org.example.app"))
            #expect(!world.wakes.wakeable.canWake(.fcm, "org.example.app"))
            #expect(!world.wakes.wakeable.hasCredential(.wns, "org.example.app"))
            clock.advance(to: 3_601_000)
            world.wake(3, "token")
            try #require(await pushes.next()).end(.accepted(id: nil))
            #expect(await outcomes.next() == Outcome(request: 3, outcome: .accepted))
            #expect(world.wakes.wakeable.canWake(.fcm, "org.example.app"))
        }
    }

    @Test(arguments: [PushOutcome.forbidden(reason: "address"), .invalid(reason: "status 400"), .dropped(reason: "off")])
    func aLastingRefusalIsToldAsOne(_ outcome: PushOutcome) async throws {
        try await withWakes { world in
            var (pushes, outcomes) = (world.pushes.makeAsyncIterator(), world.outcomes.makeAsyncIterator())
            world.wake(1, "token")
            try #require(await pushes.next()).end(outcome)
            #expect(await outcomes.next() == Outcome(request: 1, outcome: .refused(until: nil)))
            #expect(world.wakes.wakeable.canWake(.fcm, "org.example.app"))
        }
    }

    @Test func anotherCredentialReplacesAStoppedOne() async throws {
        try await withWakes { world in
            var (pushes, outcomes) = (world.pushes.makeAsyncIterator(), world.outcomes.makeAsyncIterator())
            try await world.add("second")
            world.wake(1, "token")
            try #require(await pushes.next()).end(.misconfigured(reason: "topic"))
            _ = await outcomes.next()
            world.wake(2, "token")
            try #require(await pushes.next()).end(.accepted(id: nil))
            #expect(await outcomes.next() == Outcome(request: 2, outcome: .accepted))
        }
    }
}
