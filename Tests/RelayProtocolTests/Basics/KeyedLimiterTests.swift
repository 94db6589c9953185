// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@Suite struct KeyedLimiterTests {
    @Test func burstIsTenSecondsOfTheRate() {
        var limiter = KeyedLimiter<String>()
        let rate = EventRate(perSecond: 2)
        for _ in 0..<20 { #expect(limiter.take("a", rate, now: 0) == nil) }
        #expect(limiter.take("a", rate, now: 0) == 500)
        #expect(limiter.take("a", rate, now: 499) == 1)
        #expect(limiter.take("a", rate, now: 500) == nil)
        #expect(limiter.take("a", rate, now: 500) == 500)
    }

    @Test func burstIsTheMostAndAClockSetBackIsIgnored() {
        var limiter = KeyedLimiter<String>()
        let rate = EventRate(perSecond: 1)
        for _ in 0..<10 { #expect(limiter.take("a", rate, now: 100_000) == nil) }
        #expect(limiter.take("a", rate, now: 0) == 1_000)
        limiter.sweep(now: 110_000)
        #expect(limiter.count == 0)
        for _ in 0..<10 { #expect(limiter.take("a", rate, now: 10_000_000) == nil) }
        #expect(limiter.take("a", rate, now: 10_000_000) != nil)
    }

    @Test func keysHaveRatesOfTheirOwn() {
        var limiter = KeyedLimiter<String>()
        let rate = EventRate(1, per: 60_000)
        #expect(limiter.take("a", rate, now: 0) == nil)
        #expect(limiter.take("a", rate, now: 0) == 60_000)
        #expect(limiter.take("b", rate, now: 0) == nil)
        #expect(limiter.take("a", rate, now: 59_999) == 1)
        #expect(limiter.take("a", rate, now: 60_000) == nil)
    }

    @Test(arguments: [0, 1, Int.max, Int.min]) func anyRateAtAnyTimeIsCounted(number: Int) {
        var limiter = KeyedLimiter<Int>()
        for time in [0, Milliseconds(clamping: Int64.max)] {
            #expect(limiter.take(1, EventRate(perSecond: number), now: time) == nil)
            #expect(limiter.take(2, EventRate(number, per: Milliseconds(clamping: number)), now: time) == nil)
        }
    }
}
