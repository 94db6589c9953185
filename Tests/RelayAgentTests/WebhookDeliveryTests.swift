// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayAgent

/// When a message of a webhook is sent, without a clock and a connection.
@Suite struct WebhookDeliveryTests {
    private static let start = Date(timeIntervalSince1970: 1_800_000_000)
    private static let schedule: [TimeInterval] = [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]

    @Test func messageIsSentAtOnceAndOnce() {
        var delivery = WebhookDelivery.new(at: Self.start)
        #expect(delivery.left(at: Self.start) == 0)
        #expect(delivery.begin(at: Self.start) == true)
        // One attempt at a time.
        #expect(delivery.left(at: Self.start) == nil && !delivery.begin(at: Self.start + 100))
        #expect(delivery == .sending(since: Self.start, attempts: 1))
        #expect(delivery.end(.status(204, retryAfter: 9), at: Self.start + 1) == .nothing)
        #expect(delivery == .delivered(Self.start + 1, attempts: 1))
        // What has ended stays so.
        #expect(delivery.begin(at: Self.start + 100_000) == false)
        #expect(delivery.end(.status(410, retryAfter: nil), at: Self.start + 2) == .nothing)
        delivery.adjust(at: Self.start - 10)
        #expect(delivery == .delivered(Self.start + 1, attempts: 1))
    }

    /// No answer, and each status that is neither success nor 410, also redirects.
    @Test(arguments: [nil, 100, 199, 300, 301, 302, 304, 307, 308, 400, 404, 409, 411, 429, 500, 503, 599, 0, -1, 1_000])
    func failureIsRepeatedBySchedule(status: Int?) {
        let answer = status.map { WebhookDelivery.Answer.status($0, retryAfter: nil) } ?? .nothing
        var delivery = WebhookDelivery.new(at: Self.start)
        var now = Self.start
        for (index, pause) in Self.schedule.enumerated() {
            if pause > 0 {
                #expect(delivery.left(at: now) == pause)
                #expect(delivery.begin(at: now + pause - 0.001) == false)
            }
            now += pause
            #expect(delivery.begin(at: now) == true)
            now += 15
            #expect(delivery.end(answer, at: now) == .nothing)
            #expect(delivery.attempts == index + 1)
        }
        #expect(delivery == .abandoned(now, attempts: Self.schedule.count))
    }

    @Test(arguments: [200, 201, 202, 204, 299]) func everySuccessEndsIt(status: Int) {
        var delivery = WebhookDelivery.sending(since: Self.start, attempts: 3)
        #expect(delivery.end(.status(status, retryAfter: nil), at: Self.start) == .nothing)
        #expect(delivery == .delivered(Self.start, attempts: 3))
    }

    @Test func goneEndsTheWebhook() {
        var delivery = WebhookDelivery.sending(since: Self.start, attempts: 1)
        #expect(delivery.end(.status(410, retryAfter: 60), at: Self.start) == .end)
        #expect(delivery == .abandoned(Self.start, attempts: 1))
    }

    @Test(
        arguments: [(0, 5, 0), (3, 5, 3), (60, 60, 60), (86_400, 86_400, 86_400), (1e12, 86_400, 86_400), (-5, 5, 0)]
            as [(Double, Double, Double)]
    )
    func receiverCanAskForAPause(asked: TimeInterval, next: TimeInterval, pause: TimeInterval) {
        var delivery = WebhookDelivery.sending(since: Self.start, attempts: 1)
        #expect(
            delivery.end(.status(503, retryAfter: asked), at: Self.start)
                == .pause(StoredWait(since: Self.start, until: Self.start + pause))
        )
        #expect(delivery.left(at: Self.start) == next)
    }

    @Test func interruptedAttemptDoesNotCount() {
        for attempts in 1...3 {
            var delivery = WebhookDelivery.sending(since: Self.start, attempts: attempts)
            delivery.adjust(at: Self.start + 7)
            #expect(delivery == .waiting(StoredWait(since: Self.start + 7, until: Self.start + 7), attempts: attempts - 1))
            #expect(delivery.begin(at: Self.start + 7) && delivery.attempts == attempts)
        }
        // What a damaged file could say does not trap.
        var damaged = WebhookDelivery.sending(since: Self.start, attempts: .min)
        damaged.adjust(at: Self.start)
        #expect(damaged.attempts == 0)
        damaged = .waiting(StoredWait(since: Self.start, until: Self.start), attempts: .max)
        #expect(damaged.begin(at: Self.start) == true)
        damaged = .sending(since: Self.start, attempts: .max)
        #expect(damaged.end(.nothing, at: Self.start) == .nothing)
        #expect(damaged == .abandoned(Self.start, attempts: .max))
    }

    /// A clock that goes back makes no wait longer, and one that goes on too far makes it shorter at most.
    @Test func clockMayGoBack() {
        var delivery = WebhookDelivery.waiting(StoredWait(since: Self.start, until: Self.start + 300), attempts: 2)
        let back = Self.start - 1_000_000
        #expect(delivery.left(at: back) == 300 && !delivery.begin(at: back))
        delivery.adjust(at: back)
        #expect(delivery == .waiting(StoredWait(since: back, until: back + 300), attempts: 2))
        #expect(delivery.left(at: back + 299) == 1 && delivery.begin(at: back + 300))
        // Also a little, within the wait.
        delivery = .waiting(StoredWait(since: Self.start, until: Self.start + 300), attempts: 2)
        delivery.adjust(at: Self.start + 200)
        delivery.adjust(at: Self.start + 100)
        #expect(delivery.left(at: Self.start + 100) == 200)
        #expect(delivery.begin(at: Self.start + 1_000_000) == true)
        // An attempt ends by the clock of its end.
        #expect(delivery.end(.nothing, at: Self.start - 50) == .nothing)
        #expect(delivery.left(at: Self.start - 50) == 1_800)
        // A message that has just been made waits for nothing.
        var new = WebhookDelivery.new(at: Self.start)
        #expect(new.left(at: back) == 0 && new.begin(at: back))
    }

    /// Any answers at any times: the attempts are bounded, and only 410 ends the webhook.
    @Test func scheduleHasAnEnd() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<2_000 {
            var (delivery, now, begun) = (WebhookDelivery.new(at: Self.start), Self.start, 0)
            for _ in 0..<200 {
                if let left = delivery.left(at: now) { now += left }
                if Int.random(in: 0..<4, using: &random) == 0 { now += .random(in: -200_000...200_000, using: &random) }
                delivery.adjust(at: now)
                if let left = delivery.left(at: now) {
                    #expect(left <= WebhookDelivery.longestPause)
                    now += left
                }
                guard delivery.begin(at: now) else { break }
                begun += 1
                let effect = delivery.end(
                    .status(.random(in: 300...599, using: &random), retryAfter: .random(in: 0...9, using: &random)),
                    at: now
                )
                if effect == .end { #expect(delivery == .abandoned(now, attempts: begun)) }
            }
            #expect(delivery.left(at: now) == nil && begun <= Self.schedule.count)
        }
    }
}
