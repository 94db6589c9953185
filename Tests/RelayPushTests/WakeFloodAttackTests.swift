// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayPush

/// What accounts share.
@Suite struct WakeFloodAttackTests {
    private let fcm = PushCredentialID("fcm")

    private func order(_ endpoint: Int, of account: String, registered: Milliseconds = 1) -> WakeOrder {
        WakeOrder(
            .test(endpoint, expiry: 86_400_000),
            account: WakeAccount(account),
            registration: .test(fcm: "\(endpoint)"),
            registered: registered,
            credential: fcm
        )
    }

    private func webPushOrder(_ endpoint: Int, _ url: String, of account: String) -> WakeOrder {
        let registration = PushRegistration.webPush(endpoint: Secret(url), publicKey: Blob([]), secret: Secret(Blob([])))
        return WakeOrder(
            .test(endpoint, expiry: 86_400_000),
            account: WakeAccount(account),
            registration: registration,
            registered: 1,
            credential: fcm
        )
    }

    @Test func accountsTakeTurns() {
        var limits = WakeQueue.Limits()
        limits.perService = 2
        limits.perAccount = 2
        var run = QueueSimulation(limits)
        for number in 0..<100 { run.add(order(number, of: "flood")) }
        let first = run.start()
        #expect(first.count == 2)
        run.add(order(200, of: "quiet"))
        run.add(order(201, of: "quiet"))
        for attempt in first { run.finish(attempt, .accepted(id: nil)) }
        let second = run.start()
        #expect(second.map(\.order.account) == [WakeAccount("flood"), WakeAccount("quiet")])
        for attempt in second { run.finish(attempt, .accepted(id: nil)) }
        #expect(run.start().map(\.order.account).contains(WakeAccount("quiet")))
    }

    @Test func anAccountUsesAPartOfWhatACredentialCanSend() {
        var run = QueueSimulation()
        for number in 0..<100 { run.add(order(number, of: "flood")) }
        #expect(run.start().count == 8)
        run.add(order(200, of: "quiet"))
        #expect(run.start().map(\.order) == [order(200, of: "quiet")])
    }

    @Test func pushServicesOfOneUserThatNeverAnswerDelayNoOther() {
        var run = QueueSimulation()
        for number in 0..<500 { run.add(webPushOrder(number, "https://\(number).slow.example/", of: "attacker")) }
        #expect(run.start().count == 8)
        for number in 500..<520 { run.add(webPushOrder(number, "https://push.example/\(number)", of: "user \(number)")) }
        #expect(run.start().count == 20)
    }

    @Test func anAccountsOutstandingWakesHaveABound() {
        var limits = WakeQueue.Limits()
        limits.outstandingPerAccount = 10
        var run = QueueSimulation(limits)
        for number in 0..<20 { run.add(order(number, of: "flood")) }
        #expect(run.reports == (10..<20).map { .notSent(order($0, of: "flood"), .tooManyWait) })
        run.add(order(50, of: "quiet"))
        #expect(run.reports.count == 10)
    }

    @Test func anEndpointIsWokenInABurstAndThenAtARate() {
        var run = QueueSimulation()
        for _ in 0..<30 {
            run.add(order(1, of: "account"))
            run.run(until: run.now) { _, _ in .accepted(id: nil) }
        }
        #expect(run.attempts.count == 10)
        #expect(run.reports.suffix(20).allSatisfy { $0 == .notSent(order(1, of: "account"), .tooOften(wait: 60_000)) })
        // Others are not affected.
        run.add(order(2, of: "account"))
        run.run(until: run.now) { _, _ in .accepted(id: nil) }
        #expect(run.attempts.count == 11)
        for _ in 0..<3 {
            run.now = Milliseconds(clamping: run.now.count + 60_000)
            for _ in 0..<2 {
                run.add(order(1, of: "account"))
                run.run(until: run.now) { _, _ in .accepted(id: nil) }
            }
        }
        #expect(run.attempts.count == 14)
    }

    /// FCM would answer that the device gets too much, with the status that also says so of all devices.
    @Test func oneRegistrationOfManyEndpointsHasOneRate() {
        var run = QueueSimulation()
        for number in 0..<100 {
            run.add(
                WakeOrder(
                    .test(number, expiry: 86_400_000),
                    account: WakeAccount("attacker"),
                    registration: .test(fcm: "the same"),
                    registered: 1,
                    credential: fcm
                )
            )
            run.run(until: run.now) { _, _ in .accepted(id: nil) }
        }
        #expect(run.attempts.count == 10)
    }

    @Test func endpointsThatMayBurstAgainAreForgotten() {
        var rates = WakeRates<EndpointID>(burst: 2, interval: 1_000)
        var now: Milliseconds = 0
        for number in 0..<50_000 {
            now = Milliseconds(clamping: now.count + 1)
            let wait = rates.take(.test(number), now: now)
            #expect(wait == nil)
            #expect(rates.count <= 2_100)
        }
    }

    /// The time in Apple's answer, older and newer than the registration.
    @Test func aRegistrationThatIsNewerThanTheProvidersReportStays() {
        for (since, report) in [
            (999, .notSent(order(1, of: "a", registered: 1_000), .registeredSince)),
            (1_000, .notSent(order(1, of: "a", registered: 1_000), .registeredSince)),
            (1_001, .registrationGone(order(1, of: "a", registered: 1_000), since: 1_001)),
            (nil, .registrationGone(order(1, of: "a", registered: 1_000), since: nil)),
        ] as [(Milliseconds?, WakeReport)] {
            var run = QueueSimulation()
            run.add(order(1, of: "a", registered: 1_000))
            run.run(until: 2_000) { _, _ in .gone(since: since) }
            #expect(run.reports == [report])
            #expect(run.queue.size == 0)
        }
    }
}
