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
        order(endpoint, .webPush(endpoint: Secret(url), publicKey: Blob([]), secret: Secret(Blob([]))), of: account)
    }

    private func wnsOrder(_ endpoint: Int, _ host: String, of account: String) -> WakeOrder {
        order(endpoint, .test(wns: "https://\(host).notify.windows.com/w/?token=\(endpoint)"), of: account)
    }

    private func order(_ endpoint: Int, _ registration: PushRegistration, of account: String) -> WakeOrder {
        WakeOrder(
            .test(endpoint, expiry: 86_400_000),
            account: WakeAccount(account),
            registration: registration,
            registered: 1,
            credential: fcm
        )
    }

    private static let failure = PushOutcome.failed(scope: .registration, reason: "502")

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

    /// A device chooses the host of its channel URI.
    @Test func aWNSHostThatFailsPausesNoOtherAccount() {
        var run = QueueSimulation()
        for number in 0..<20 { run.add(wnsOrder(number, "nowhere", of: "attacker")) }
        run.run(until: 2_000) { _, _ in Self.failure }
        // It pauses for the attacker: what was on its way, and no more.
        #expect(run.attempts.count == 8)
        // Many go to one host, also that of the attacker.
        for number in 100..<120 { run.add(wnsOrder(number, number % 2 == 0 ? "nowhere" : "db5p", of: "user \(number)")) }
        #expect(run.start().count == 20)
        // The attacker's other host is another one.
        run.add(wnsOrder(30, "db5p", of: "attacker"))
        #expect(run.start().map(\.order) == [wnsOrder(30, "db5p", of: "attacker")])
    }

    @Test func aPauseThatWNSAsksForHoldsForAllAccounts() {
        var run = QueueSimulation()
        run.add(wnsOrder(1, "db5p", of: "one"))
        let outcome = PushRetryTable.outcome(of: PushReply(status: 429, wait: 100_000), from: .wns)
        run.run(until: 2_000) { _, _ in outcome }
        run.add(wnsOrder(2, "am3p", of: "another"))
        run.run(until: 200_000) { _, _ in .accepted(id: nil) }
        // 100 s and a tenth for jitter.
        #expect(run.attempts == [1_000, 111_000, 111_000])
    }

    /// No device chooses it.
    @Test func aTokenEndpointThatFailsPausesTheCredential() {
        var run = QueueSimulation()
        for number in 0..<20 { run.add(wnsOrder(number, "db5p", of: "user \(number)")) }
        run.run(until: 2_000) { _, _ in .failed(reason: "the token endpoint cannot be reached") }
        run.add(wnsOrder(30, "db5p", of: "another"))
        #expect(run.start().isEmpty)
    }

    /// A push service that several users have, such as an ntfy, where one registers a path that fails.
    @Test func aPathOfASharedOriginThatFailsPausesNoOtherAccount() {
        var run = QueueSimulation()
        for number in 0..<20 { run.add(webPushOrder(number, "https://ntfy.example/broken", of: "attacker")) }
        run.run(until: 2_000) { _, _ in Self.failure }
        #expect(run.attempts.count == 8)
        for number in 100..<120 { run.add(webPushOrder(number, "https://ntfy.example/\(number)", of: "user \(number)")) }
        let started = run.start()
        #expect(started.count == 20)
        for attempt in started { run.finish(attempt, .accepted(id: nil)) }
        // Nor does their success end the attacker's pause.
        run.add(webPushOrder(40, "https://ntfy.example/broken", of: "attacker"))
        #expect(run.start().isEmpty)
    }

    @Test func addressesThatFailedAreForgotten() {
        var run = QueueSimulation()
        for number in 0..<500 {
            run.add(webPushOrder(number, "https://\(number).example/", of: "attacker \(number % 50)"))
            run.add(wnsOrder(1_000 + number, "h\(number)", of: "attacker \(number % 50)"))
        }
        run.run(until: 3_600_000) { _, _ in Self.failure }
        #expect(run.reports.count == 1_000)
        #expect(run.queue.addresses.isEmpty)
        #expect(run.queue.size == 0)
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
        var rates = KeyedLimiter<EndpointID>()
        let rate = EventRate(2, per: 2_000)
        var now: Milliseconds = 0
        for number in 0..<50_000 {
            now = Milliseconds(clamping: now.count + 1)
            let wait = rates.take(.test(number), rate, now: now)
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
