// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayPush

private let apns = PushCredentialID("apns")
private let fcm = PushCredentialID("fcm")
private let day: Milliseconds = 86_400_000

private func order(
    _ endpoint: Int,
    _ urgency: WakePayload.Urgency = .urgent,
    _ credential: PushCredentialID = fcm,
    token: String = "token",
    expiry: Milliseconds = day,
    registered: Milliseconds = 1,
    number: Int = 0
) -> WakeOrder {
    WakeOrder(
        .test(endpoint, urgency, expiry: expiry),
        account: WakeAccount("\(endpoint)"),
        registration: .test(fcm: "\(token) \(endpoint)"),
        registered: registered,
        credential: credential,
        number: number
    )
}

private func webPushOrder(_ endpoint: Int, _ url: String) -> WakeOrder {
    let registration = PushRegistration.webPush(endpoint: Secret(url), publicKey: Blob([]), secret: Secret(Blob([])))
    return WakeOrder(
        .test(endpoint, expiry: day),
        account: WakeAccount("\(endpoint)"),
        registration: registration,
        registered: 1,
        credential: fcm
    )
}

@Suite struct WakeQueueTests {
    // MARK: Coalescing

    @Test func anEndpointHasOneOutstandingWakeOfAClass() {
        var run = QueueSimulation()
        for _ in 0..<10 { run.add(order(1)) }
        let attempt = run.start()
        #expect(attempt.map(\.order) == [order(1)])
        for _ in 0..<10 { run.add(order(1)) }
        #expect(run.start().isEmpty)
        run.finish(attempt[0], .accepted(id: "7"))
        #expect(run.reports == [.accepted(order(1), id: "7")])
        #expect(run.start().isEmpty)
        run.add(order(1))
        #expect(run.start().count == 1)
    }

    @Test func classesAndCredentialsAreApart() {
        var run = QueueSimulation()
        run.add(order(1, .background))
        run.add(order(1, .urgent))
        run.add(order(1, .urgent, apns))
        #expect(Set(run.start().map(\.order)) == [order(1, .background), order(1, .urgent), order(1, .urgent, apns)])
    }

    @Test func theNewestOrderCounts() {
        var run = QueueSimulation()
        run.add(order(1, token: "old"))
        run.add(order(1, token: "new"))
        #expect(run.start().map(\.order) == [order(1, token: "new")])
    }

    @Test func aRegistrationThatWasRenewedMeanwhileIsTried() {
        var run = QueueSimulation()
        run.add(order(1, token: "old"))
        let old = run.start()
        run.add(order(1, token: "new"))
        run.finish(old[0], .gone(since: 5))
        #expect(run.reports == [.registrationGone(order(1, token: "old"), since: 5)])
        let new = run.start()
        #expect(new.map(\.order) == [order(1, token: "new")])
        run.finish(new[0], .accepted(id: nil))
        #expect(run.queue.size == 0)
    }

    @Test func anOutcomeIsThatOfTheNewestOrder() {
        var run = QueueSimulation()
        run.add(order(1, number: 1))
        run.add(order(1, number: 2))
        let attempt = run.start()
        #expect(attempt.map(\.order) == [order(1, number: 2)])
        run.add(order(1, number: 3))
        run.finish(attempt[0], .accepted(id: nil))
        #expect(run.reports == [.accepted(order(1, number: 3), id: nil)])
        #expect(run.queue.size == 0)
    }

    /// Whatever became of the push to the old token, the new one gets its own.
    @Test(arguments: [
        PushOutcome.accepted(id: nil), .gone(since: nil), .gone(since: 1), .dropped(reason: "x"), .invalid(reason: "x"),
        .forbidden(reason: "x"), .mismatched(reason: "x"), .failed(reason: "x"), .throttled(scope: .registration, wait: 60_000),
        .credentialRejected(reason: "x"),
    ])
    func aPushToAnOldTokenDoesNotCountForTheNewOne(_ outcome: PushOutcome) throws {
        var run = QueueSimulation()
        let (old, new) = (order(1, token: "old", number: 1), order(1, token: "new", registered: 2, number: 2))
        run.add(old)
        let attempt = run.start()
        run.add(new)
        #expect(run.start().isEmpty)
        run.finish(attempt[0], outcome)
        #expect(
            run.reports.allSatisfy { report in
                switch report {
                case .accepted(let order, _), .registrationGone(let order, _): order == old
                case .notSent, .credentialStopped: false
                }
            }
        )
        run.reports = []
        let following = run.start()
        #expect(following.map(\.order) == [new])
        // It begins anew: five attempts.
        run.finish(try #require(following.first), .failed(reason: "503"))
        run.run(until: day) { _, _ in .failed(reason: "503") }
        #expect(run.attempts.count == 6)
        #expect(run.reports == [.notSent(new, .failed(reason: "503"))])
        #expect(run.queue.entries.isEmpty)
    }

    /// The same token, registered again: an outcome without a time can be older than that.
    @Test func aTokenThatWasRegisteredAgainIsTried() {
        var run = QueueSimulation()
        run.add(order(1))
        let attempt = run.start()
        run.add(order(1, registered: 2, number: 1))
        run.finish(attempt[0], .gone(since: nil))
        #expect(run.reports == [.registrationGone(order(1), since: nil)])
        #expect(run.start().map(\.order) == [order(1, registered: 2, number: 1)])
    }

    @Test func anOrderAfterAConnectionGetsItsOwnPush() throws {
        var run = QueueSimulation()
        run.add(order(1))
        let attempt = run.start()
        run.reports += run.queue.drop(.test(1), .connected, now: run.now)
        run.add(order(1, number: 1))
        #expect(run.start().isEmpty)
        run.finish(attempt[0], .accepted(id: nil))
        #expect(run.reports == [.accepted(order(1), id: nil)])
        let following = run.start()
        #expect(following.map(\.order) == [order(1, number: 1)])
        run.finish(try #require(following.first), .accepted(id: nil))
        #expect(run.reports.last == .accepted(order(1, number: 1), id: nil))
        #expect(run.queue.size == 0)
    }

    @Test func anOrderBeforeAConnectionGetsNoPushAfterIt() {
        var run = QueueSimulation()
        run.add(order(1))
        run.add(order(2, token: "old"))
        let attempts = run.start()
        run.reports += run.queue.drop(.test(1), .connected, now: run.now)
        run.add(order(1, number: 1))
        run.add(order(2, token: "new", number: 1))
        for endpoint in 1...2 { run.reports += run.queue.drop(.test(endpoint), .connected, now: run.now) }
        for attempt in attempts { run.finish(attempt, .accepted(id: nil)) }
        #expect(run.start().isEmpty)
        #expect(run.queue.size == 0)
        #expect(
            Set(run.reports) == [
                .accepted(order(1, number: 1), id: nil), .accepted(order(2, token: "old"), id: nil),
                .notSent(order(2, token: "new", number: 1), .connected),
            ]
        )
    }

    @Test func anEndpointThatConnectedIsNotWoken() {
        var run = QueueSimulation()
        run.add(order(1))
        run.add(order(2))
        run.reports += run.queue.drop(.test(1), .connected, now: run.now)
        #expect(run.reports == [.notSent(order(1), .connected)])
        let attempt = run.start()
        #expect(attempt.map(\.order) == [order(2)])
        run.reports += run.queue.drop(.test(2), .connected, now: run.now)
        run.finish(attempt[0], .failed(reason: "503"))
        #expect(run.reports.last == .notSent(order(2), .connected))
        #expect(run.queue.size == 0)
    }

    /// Another node serves the account: nothing is sent, and nothing in flight is repeated.
    @Test func ordersThatAreDroppedAreNotSent() {
        var run = QueueSimulation()
        run.add(order(1))
        let attempt = run.start()
        run.add(order(1, .background))
        run.reports += run.queue.drop(.test(1), .elsewhere, now: run.now)
        #expect(run.reports == [.notSent(order(1, .background), .elsewhere)])
        run.reports = []
        run.finish(attempt[0], .failed(reason: "network"))
        #expect(run.reports == [.notSent(order(1), .elsewhere)])
        #expect(run.start().isEmpty)
        // The account is back. An order is sent again.
        run.add(order(1))
        #expect(run.start().count == 1)
    }

    @Test func anUrgentWakeGoesFirst() {
        var limits = WakeQueue.Limits()
        limits.perService = 1
        var run = QueueSimulation(limits)
        run.add(order(1, .background))
        run.add(order(2, .background))
        run.add(order(3, .urgent))
        run.run(until: 2_000) { _, _ in .accepted(id: nil) }
        #expect(run.orders == [order(3, .urgent), order(1, .background), order(2, .background)])
    }

    // MARK: Each outcome

    @Test func failuresAreTriedFiveTimes() {
        var run = QueueSimulation()
        run.add(order(1))
        run.run(until: day) { _, _ in .failed(reason: "503") }
        #expect(run.attempts == [1_000, 11_000, 31_000, 71_000, 151_000])
        #expect(run.reports == [.notSent(order(1), .failed(reason: "503"))])
    }

    @Test func nothingIsSentPastItsExpiry() {
        var run = QueueSimulation()
        run.add(order(1, expiry: 500))
        run.add(order(2, expiry: 15_000))
        run.run(until: day) { _, _ in .failed(reason: "503") }
        #expect(run.attempts == [1_000, 11_000])
        #expect(run.reports == [.notSent(order(1, expiry: 500), .expired), .notSent(order(2, expiry: 15_000), .failed(reason: "503"))])
    }

    @Test func whatIsFinalIsReportedOnce() {
        let cases: [(PushOutcome, WakeReport.NotSent)] = [
            (.invalid(reason: "size"), .rejected(reason: "size")), (.forbidden(reason: "host"), .rejected(reason: "host")),
            (.dropped(reason: "off"), .dropped(reason: "off")), (.mismatched(reason: "sender"), .mismatched(reason: "sender")),
        ]
        for (outcome, report) in cases {
            var run = QueueSimulation()
            run.add(order(1))
            run.run(until: day) { _, _ in outcome }
            #expect(run.attempts.count == 1)
            #expect(run.reports == [.notSent(order(1), report)])
        }
    }

    @Test func aPauseOfARegistrationHoldsUpNoOther() {
        var run = QueueSimulation()
        run.add(order(1))
        run.add(order(2))
        run.run(until: 20_000) { order, now in
            order.wake.payload.endpoint == .test(1) && now.count < 2_000
                ? .throttled(scope: .registration, wait: 100_000) : .accepted(id: nil)
        }
        #expect(run.attempts == [1_000, 1_000])
        // The other class waits for the pause too: 100 s and a tenth for jitter.
        run.add(order(1, .background))
        run.run(until: day) { _, _ in .accepted(id: nil) }
        #expect(run.attempts == [1_000, 1_000, 111_000, 111_000])
        #expect(run.reports.count == 3)
    }

    @Test func aNewRegistrationIsNotPausedWithTheOldOne() {
        var run = QueueSimulation()
        run.add(order(1, token: "old"))
        run.run(until: 2_000) { _, _ in .mismatched(reason: "sender") }
        run.add(order(1, token: "old"))
        run.run(until: 3_000) { _, _ in .accepted(id: nil) }
        #expect(run.attempts.count == 1)
        run.add(order(1, token: "new"))
        run.add(order(1, .background, token: "new"))
        run.run(until: 4_000) { _, _ in .accepted(id: nil) }
        #expect(run.attempts.count == 3)
    }

    @Test func aPauseOfACredentialHoldsUpAllOfIt() {
        var run = QueueSimulation()
        run.add(order(1))
        run.add(order(2))
        run.add(order(3, .urgent, apns))
        run.run(until: 20_000) { order, _ in
            order.credential == fcm ? .throttled(scope: .credential, wait: 100_000) : .accepted(id: nil)
        }
        run.add(order(4))
        run.run(until: day) { _, _ in .accepted(id: nil) }
        #expect(run.attempts == [1_000, 1_000, 1_000, 111_000, 111_000, 111_000])
    }

    @Test func aProviderThatAsksForPausesWithoutEndIsAskedAFewTimes() {
        var run = QueueSimulation()
        run.add(order(1))
        run.run(until: day) { _, _ in .throttled(scope: .registration, wait: 0) }
        #expect(run.attempts.count == 5)
        #expect(run.reports == [.notSent(order(1), .paused(wait: 0))])
    }

    @Test func aRejectedCredentialIsRenewedOnceAndThenStops() {
        var run = QueueSimulation()
        for number in 0..<100 { run.add(order(number)) }
        run.add(order(1, .urgent, apns))
        run.run(until: 20_000) { order, _ in order.credential == fcm ? .credentialRejected(reason: "key") : .accepted(id: nil) }
        // Those on their way at first, and one to try the new token; and the other provider's.
        #expect(run.attempts.count == 32 + 1 + 1)
        #expect(run.reports.filter { $0 == .credentialStopped(fcm, reason: "key") }.count == 1)
        #expect(run.reports.filter { if case .notSent(_, .credentialStopped) = $0 { true } else { false } }.count == 100)
        run.add(order(200))
        #expect(run.reports.last == .notSent(order(200), .credentialStopped(wait: 3_581_000)))
        // Replaced, it goes on.
        run.queue.replaced(fcm)
        run.add(order(201))
        run.run(until: 30_000) { _, _ in .accepted(id: nil) }
        #expect(run.reports.last == .accepted(order(201), id: nil))
    }

    @Test func whatWasSentWithOldCredentialsStopsNoNewOnes() {
        var run = QueueSimulation()
        run.add(order(1))
        let attempt = run.start()
        run.queue.replaced(fcm)
        run.finish(attempt[0], .misconfigured(reason: "topic"))
        run.run(until: 2_000) { _, _ in .accepted(id: nil) }
        #expect(run.reports == [.accepted(order(1), id: nil)])
    }

    @Test func aStoppedCredentialIsTriedAgainAfterAnHour() {
        var run = QueueSimulation()
        run.add(order(1))
        run.run(until: 2_000) { _, _ in .misconfigured(reason: "topic") }
        run.now = 3_600_999
        run.add(order(1))
        #expect(run.reports.last == .notSent(order(1), .credentialStopped(wait: 1)))
        run.now = 3_601_000
        run.add(order(1))
        run.run(until: 3_700_000) { _, _ in .accepted(id: nil) }
        #expect(run.reports.last == .accepted(order(1), id: nil))
    }

    // MARK: A provider that fails

    @Test func aProviderThatIsDownForAnHourMeetsNoStorm() {
        var run = QueueSimulation()
        for number in 0..<1_000 { run.add(order(number)) }
        run.run(until: 3_600_000) { _, _ in .failed(reason: "503") }
        // What was on its way when it went down, then one at a time after pauses of 1 to 10 minutes.
        #expect(run.attempts.count <= 32 + 12, "\(run.attempts.count)")
        let before = run.attempts.count
        // When it is back, each endpoint that still waits is woken once, and not all of them at once.
        var largest = 0
        while run.attempts.count < 1_000 + before {
            guard let next = run.queue.nextTime, run.queue.size > 0 else { break }
            run.now = max(run.now, next)
            var started = run.start()
            while !started.isEmpty {
                largest = max(largest, started.count)
                for attempt in started { run.finish(attempt, .accepted(id: nil)) }
                let following = run.start()
                #expect(following.count <= 2 * started.count)
                started = following
            }
        }
        #expect(largest == 32)
        let accepted = run.reports.compactMap { if case .accepted(let order, _) = $0 { order.wake.payload.endpoint } else { nil } }
        #expect(Set(accepted).count == accepted.count)
        #expect(run.reports.count == 1_000)
        #expect(accepted.count > 950)
        #expect(run.queue.size == 0)
    }

    @Test func aProviderThatNeverAnswersHoldsUpNoOther() {
        var run = QueueSimulation()
        for number in 0..<500 { run.add(order(number)) }
        #expect(run.start().count == 32)
        for number in 0..<500 { run.add(order(number, .urgent, apns)) }
        var sent = 0
        while true {
            let started = run.start()
            guard !started.isEmpty else { break }
            #expect(started.allSatisfy { $0.order.credential == apns })
            sent += started.count
            for attempt in started { run.finish(attempt, .accepted(id: nil)) }
        }
        #expect(sent == 500)
    }

    @Test func aPushServiceOfAUserHoldsUpNoOther() {
        var limits = WakeQueue.Limits()
        limits.perService = 4
        limits.perCredential = 8
        var run = QueueSimulation(limits)
        for number in 0..<100 { run.add(webPushOrder(number, "https://slow.example/\(number)")) }
        #expect(run.start().count == 4)
        for number in 100..<200 { run.add(webPushOrder(number, "https://push.example/\(number)")) }
        let started = run.start()
        #expect(started.count == 4)
        #expect(started.allSatisfy { $0.order.wake.payload.endpoint != .test(0) })
        for attempt in started { run.finish(attempt, .accepted(id: nil)) }
        #expect(run.start().count == 4)
    }

    @Test func aFailingPushServiceOfAUserPausesNoOther() {
        var run = QueueSimulation()
        for number in 0..<50 { run.add(webPushOrder(number, "https://down.example/\(number)")) }
        run.run(until: 2_000) { _, _ in .failed(scope: .registration, reason: "503") }
        run.add(webPushOrder(99, "https://push.example/99"))
        run.run(until: 3_000) { _, _ in .accepted(id: nil) }
        #expect(run.reports.last == .accepted(webPushOrder(99, "https://push.example/99"), id: nil))
    }

    // MARK: Memory

    @Test func outstandingWakesHaveABound() {
        var limits = WakeQueue.Limits()
        limits.outstanding = 10
        var run = QueueSimulation(limits)
        for number in 0..<20 { run.add(order(number)) }
        #expect(run.reports == (10..<20).map { .notSent(order($0), .tooManyWait) })
        // Others have their own.
        run.add(order(1, .urgent, apns))
        #expect(run.reports.count == 10)
    }

    @Test func endpointsThatComeAndGoLeaveNothingBehind() {
        var run = QueueSimulation()
        run.add(order(0))
        run.run(until: 2_000) { _, _ in .throttled(scope: .credential, wait: 3_600_000) }
        for round in 0..<10_000 {
            run.add(order(round % 7))
            run.add(webPushOrder(round, "https://\(round).example/"))
            run.reports += run.queue.drop(.test(round % 7), .connected, now: run.now)
            run.reports += run.queue.drop(.test(round), .connected, now: run.now)
            #expect(run.start().isEmpty)
            run.reports = []
            #expect(run.queue.size < 2_000)
        }
        run.run(until: 10_000_000) { _, _ in .accepted(id: nil) }
        #expect(run.queue.size == 0)
    }

    @Test func randomTrafficEndsWithOneReportPerWake() {
        var generator = SeededGenerator(seed: 20_261_124)
        var limits = WakeQueue.Limits()
        limits.perService = 3
        limits.perCredential = 5
        limits.outstanding = 40
        var run = QueueSimulation(limits)
        var inFlight: [WakeQueue.Attempt] = []
        var outstanding: Set<WakeQueue.Key> = []
        func key(_ order: WakeOrder) -> WakeQueue.Key {
            .init(endpoint: order.wake.payload.endpoint, credential: order.credential, urgency: order.wake.payload.urgency)
        }
        func settle(_ before: Int) {
            for report in run.reports[before...] {
                switch report {
                case .accepted(let order, _), .notSent(let order, _), .registrationGone(let order, _):
                    #expect(outstanding.remove(key(order)) != nil)
                case .credentialStopped: break
                }
            }
        }
        let outcomes: [PushOutcome] = [
            .accepted(id: nil), .accepted(id: nil), .accepted(id: nil), .failed(reason: "x"), .gone(since: nil),
            .throttled(scope: .registration, wait: 5_000), .throttled(scope: .credential, wait: 500), .credentialRejected(reason: "x"),
            .mismatched(reason: "x"), .invalid(reason: "x"), .failed(scope: .registration, reason: "x"),
        ]
        for _ in 0..<20_000 {
            let before = run.reports.count
            switch Int.random(in: 0..<10, using: &generator) {
            case 0..<4:
                let number = Int.random(in: 0..<60, using: &generator)
                let new =
                    number < 30
                    ? order(number, number % 2 == 0 ? .urgent : .background, number % 3 == 0 ? apns : fcm, expiry: 1_000_000_000_000)
                    : webPushOrder(number, "https://\(number % 4).example/")
                outstanding.insert(key(new))
                run.add(new)
            case 4..<7: inFlight += run.start()
            case 7..<9:
                if !inFlight.isEmpty {
                    let attempt = inFlight.remove(at: Int.random(in: inFlight.indices, using: &generator))
                    run.finish(attempt, outcomes[Int.random(in: outcomes.indices, using: &generator)])
                }
            default: run.now = Milliseconds(clamping: run.now.count + Int64.random(in: 0...20_000, using: &generator))
            }
            settle(before)
            #expect(Set(inFlight.map(\.key)).count == inFlight.count)
            #expect(inFlight.count <= 10)
            #expect(run.queue.size < 5_000)
        }
        let before = run.reports.count
        for attempt in inFlight { run.finish(attempt, .accepted(id: nil)) }
        run.run(until: 900_000_000_000) { _, _ in .accepted(id: nil) }
        settle(before)
        _ = run.start()
        #expect(outstanding.isEmpty)
        #expect(run.queue.size == 0)
    }
}
