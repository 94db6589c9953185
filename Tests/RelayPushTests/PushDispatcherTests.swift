// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOHTTP1
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayPush

/// The dispatcher with the channels and scripted providers.
@Suite(.timeLimit(.minutes(5))) struct PushDispatcherTests {
    private let time = TestTime()
    private let clock = ManualClock()
    private let log = CapturedLog()
    private let metrics = CountedMetrics()
    private let apns = PushCredentialID("apns")
    private let fcm = PushCredentialID("fcm")

    private struct Running {
        let dispatcher: PushDispatcher
        let apns: ScriptedAPNs
        let fcm: ScriptedFCM
        /// What is reported, and so far.
        let reports: AsyncStream<WakeReport>
    }

    private func withDispatcher(_ body: (Running) async throws -> Void) async throws {
        let (apns, fcm) = (try await ScriptedAPNs(time), try await ScriptedFCM(time))
        let now: @Sendable () -> Milliseconds = { [time] in time.now }
        let channels: [PushCredentialID: any PushChannel] = [
            self.apns: try PushChannels.test(apns.http, time).channel(for: .test(apns: apns)),
            self.fcm: try PushChannels.test(fcm.http, time).channel(for: .testFCM()),
        ]
        let (reports, report) = AsyncStream.makeStream(of: WakeReport.self)
        let dispatcher = PushDispatcher(
            channels,
            clock: WakeClock(uptime: { [clock] in clock.now }, time: now, sleep: { [clock] in await clock.sleep(until: $0) }),
            logger: Logger(label: "push") { [log] _ in log },
            metrics: metrics,
            random: { $0 },
            report: { report.yield($0) }
        )
        let run = Task { await dispatcher.run() }
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(Running(dispatcher: dispatcher, apns: apns, fcm: fcm, reports: reports)))
        } catch {
            result = .failure(error)
        }
        run.cancel()
        await run.value
        await apns.stop()
        await fcm.stop()
        try result.get()
    }

    private func order(_ number: Int, _ credential: PushCredentialID, lifetime: Int64 = 7_200_000) -> WakeOrder {
        WakeOrder(
            .test(number, expiry: Milliseconds(clamping: time.now.count + lifetime)),
            registration: credential == apns ? .test(apns: ScriptedAPNs.token(number)) : .test(fcm: "device \(number)"),
            credential: credential
        )
    }

    private func isAccepted(_ report: WakeReport?) -> Bool { if case .accepted = report { true } else { false } }

    @Test func wakesReachTheirProviders() async throws {
        try await withDispatcher { running in
            for number in 0..<100 {
                await running.dispatcher.send(order(number, apns))
                await running.dispatcher.send(order(number, fcm))
            }
            var reports = running.reports.makeAsyncIterator()
            for _ in 0..<200 { #expect(isAccepted(await reports.next())) }
            #expect(running.apns.now.accepted.count == 100)
            #expect(running.apns.now.violations.isEmpty)
            #expect(running.fcm.read { $0.accepted.count } == 100)
            #expect(running.fcm.read { $0.largestConcurrency } <= 32)
            #expect(await running.dispatcher.size == 0)
        }
    }

    @Test func aProviderThatNeverAnswersHoldsUpNoOther() async throws {
        try await withDispatcher { running in
            for number in 0..<200 {
                running.fcm.script("device \(number)", .silence)
                for _ in 0..<5 { await running.dispatcher.send(order(number, fcm)) }
            }
            var reports = running.reports.makeAsyncIterator()
            for number in 0..<200 {
                await running.dispatcher.send(order(number, apns))
                let report = try #require(await reports.next())
                #expect(report == .accepted(order(number, apns), id: "EC1BF194-B3B2-424A-89A9-5A918A6E6B4E"))
            }
            // None of them ended, so that all are still on their way.
            #expect(running.fcm.http.received.filter { $0.path != "/token" }.count <= 32)
            #expect(running.fcm.read { $0.accepted.isEmpty })
        }
    }

    @Test func aProviderThatComesBackGetsWhatWaits() async throws {
        try await withDispatcher { running in
            let problem = ScriptedFCM.problem(503, "UNAVAILABLE")
            running.fcm.script("device 1", problem, problem, problem)
            await running.dispatcher.send(order(1, fcm))
            // 10 s, 20 s and 40 s, as the jitter is at its most.
            var alarms = clock.alarms.makeAsyncIterator()
            for end in [11_000, 31_000, 71_000] as [Milliseconds] {
                #expect(await alarms.next() == end)
                clock.advance(to: end)
            }
            var reports = running.reports.makeAsyncIterator()
            #expect(await reports.next() == .accepted(order(1, fcm), id: "projects/\(ScriptedFCM.project)/messages/0:1"))
            #expect(running.fcm.http.received.filter { $0.path != "/token" }.count == 4)
        }
    }

    @Test func aProvidersPauseIsKept() async throws {
        try await withDispatcher { running in
            running.fcm.script("device 1", ScriptedFCM.problem(429, "QUOTA_EXCEEDED", headers: ["Retry-After": "100"]))
            await running.dispatcher.send(order(1, fcm))
            var alarms = clock.alarms.makeAsyncIterator()
            #expect(await alarms.next() == 111_000)
            await running.dispatcher.send(order(2, fcm))
            await running.dispatcher.send(order(3, apns))
            var reports = running.reports.makeAsyncIterator()
            #expect(isAccepted(await reports.next()))
            #expect(running.fcm.read { $0.accepted.isEmpty })
            clock.advance(to: 111_000)
            for _ in 0..<2 { #expect(isAccepted(await reports.next())) }
            #expect(running.fcm.read { $0.accepted.count } == 2)
        }
    }

    @Test func aCredentialThatIsRejectedStopsAndCanBeReplaced() async throws {
        try await withDispatcher { running in
            let rejected = ScriptedFCM.problem(401, "UNAUTHENTICATED")
            running.fcm.script("device 1", rejected, rejected)
            await running.dispatcher.send(order(1, fcm))
            var reports = running.reports.makeAsyncIterator()
            #expect(await reports.next() == .credentialStopped(fcm, reason: "UNAUTHENTICATED"))
            #expect(await reports.next() == .notSent(order(1, fcm), .credentialStopped(wait: 3_600_000)))
            // It was renewed once in between.
            #expect(running.fcm.read { $0.assertions } == 2)
            #expect(!running.dispatcher.canSend(with: fcm))
            #expect(running.dispatcher.canSend(with: apns))
            await running.dispatcher.send(order(2, fcm))
            #expect(await reports.next() == .notSent(order(2, fcm), .credentialStopped(wait: 3_600_000)))
            await running.dispatcher.replace(nil, for: fcm)
            await running.dispatcher.send(order(2, fcm))
            #expect(await reports.next() == .notSent(order(2, fcm), .unknownCredential))
        }
    }

    @Test func aStoppedCredentialCanBeUsedAfterAnHour() async throws {
        try await withDispatcher { running in
            #expect(running.dispatcher.canSend(with: fcm))
            #expect(!running.dispatcher.canSend(with: PushCredentialID("other")))
            running.fcm.script("device 1", ScriptedFCM.problem(403, "PERMISSION_DENIED"))
            await running.dispatcher.send(order(1, fcm))
            var reports = running.reports.makeAsyncIterator()
            #expect(await reports.next() == .credentialStopped(fcm, reason: "PERMISSION_DENIED"))
            _ = await reports.next()
            clock.advance(to: 3_600_999)
            #expect(!running.dispatcher.canSend(with: fcm))
            clock.advance(to: 3_601_000)
            #expect(running.dispatcher.canSend(with: fcm))
            await running.dispatcher.send(order(1, fcm))
            #expect(isAccepted(await reports.next()))
            await running.dispatcher.replace(nil, for: fcm)
            #expect(!running.dispatcher.canSend(with: fcm))
        }
    }

    @Test func whatWasOnItsWayWithAReplacedCredentialIsSentWithTheNewOne() async throws {
        try await withDispatcher { running in
            running.fcm.script("device 1", .silence)
            await running.dispatcher.send(order(1, fcm))
            try await eventually { running.fcm.http.received.contains { $0.path != "/token" } }
            await running.dispatcher.replace(try PushChannels.test(running.fcm.http, time).channel(for: .testFCM()), for: fcm)
            var alarms = clock.alarms.makeAsyncIterator()
            clock.advance(to: try #require(await alarms.next()))
            var reports = running.reports.makeAsyncIterator()
            #expect(isAccepted(await reports.next()))
            #expect(running.fcm.read { $0.assertions } == 2)
        }
    }

    @Test func attemptsAndWakesAreCounted() async throws {
        try await withDispatcher { running in
            running.fcm.script("device 1", ScriptedFCM.problem(404, "UNREGISTERED"))
            running.fcm.script("device 2", ScriptedFCM.problem(403, "SENDER_ID_MISMATCH"))
            var reports = running.reports.makeAsyncIterator()
            for number in 1...3 {
                await running.dispatcher.send(order(number, fcm))
                _ = await reports.next()
            }
            await running.dispatcher.send(order(1, apns))
            _ = await reports.next()
            let expected: [String: Int64] = [
                "relay_push_attempts_total outcome=accepted service=apns": 1, "relay_push_attempts_total outcome=accepted service=fcm": 1,
                "relay_push_attempts_total outcome=gone service=fcm": 1, "relay_push_attempts_total outcome=mismatched service=fcm": 1,
                "relay_push_wakes_not_sent_total reason=mismatched": 1,
            ]
            #expect(metrics.counts == expected)
        }
    }

    @Test func whatIsReportedAndLoggedHoldsNoSecret() async throws {
        try await withDispatcher { running in
            running.fcm.script("device 1", .reply(.badRequest, [:], "device 1"))
            running.fcm.script("device 2", .reply(.badRequest, [:], #"{"error":{"status":"device 2","message":"device 2"}}"#))
            running.fcm.script("device 3", ScriptedFCM.problem(403, "PERMISSION_DENIED"))
            var reports = running.reports.makeAsyncIterator()
            var found: [WakeReport] = []
            for number in 1...3 {
                await running.dispatcher.send(order(number, fcm))
                found.append(try #require(await reports.next()))
            }
            found.append(try #require(await reports.next()))
            var text = log.lines.joined(separator: "\n")
            #expect(log.lines.count == 4)
            for report in found {
                dump(report, to: &text)
                text += "\(report)" + String(reflecting: report)
            }
            #expect(text.contains("(secret)"))
            #expect(text.contains("PERMISSION_DENIED"))
            for number in 1...3 { #expect(!text.contains("device \(number)")) }
        }
    }
}
