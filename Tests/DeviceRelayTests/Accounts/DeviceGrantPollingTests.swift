// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import DeviceRelay

/// The waiting for a user (RFC 8628 §3.5).
@Suite struct DeviceGrantPollingTests {
    @Test func asksOnceInEachInterval() {
        var polling = DeviceGrantPolling(life: 600, interval: 5)
        #expect(polling.begin() == .ask(at: 5_000))
        #expect(polling.answered(.pending, now: 5_100) == .ask(at: 10_100))
        #expect(polling.answered(.granted, now: 10_200) == .end(.granted))
    }

    @Test func slowDownAddsFiveSecondsToEachLaterInterval() {
        var polling = DeviceGrantPolling(life: 600, interval: 5)
        #expect(polling.answered(.slowDown, now: 5_000) == .ask(at: 15_000))
        #expect(polling.answered(.pending, now: 15_000) == .ask(at: 25_000))
        #expect(polling.answered(.slowDown, now: 25_000) == .ask(at: 40_000))
        for _ in 0..<100 { _ = polling.answered(.slowDown, now: 40_000) }
        #expect(polling.answered(.pending, now: 40_000) == .ask(at: 100_000))
    }

    @Test func lossOfTheNetworkDoublesTheIntervalUntilTheNextAnswer() {
        var polling = DeviceGrantPolling(life: 600, interval: 5)
        #expect(polling.answered(.unavailable, now: 5_000) == .ask(at: 15_000))
        #expect(polling.answered(.unavailable, now: 15_000) == .ask(at: 35_000))
        #expect(polling.answered(.pending, now: 35_000) == .ask(at: 40_000))
        for _ in 0..<100 { _ = polling.answered(.unavailable, now: 40_000) }
        #expect(polling.answered(.unavailable, now: 40_000) == .ask(at: 100_000))
    }

    @Test func theLastRequestIsAtTheEnd() {
        var polling = DeviceGrantPolling(life: 12, interval: 5)
        #expect(polling.answered(.pending, now: 10_000) == .ask(at: 12_000))
        #expect(polling.answered(.pending, now: 12_000) == .end(.expired))
        #expect(polling.answered(.unavailable, now: 12_001) == .end(.expired))
        #expect(polling.answered(.granted, now: 12_001) == .end(.granted))
    }

    @Test func theIssuerEndsIt() {
        var polling = DeviceGrantPolling(life: 600, interval: 5)
        #expect(polling.answered(.denied, now: 5_000) == .end(.denied))
        #expect(polling.answered(.expired, now: 5_000) == .end(.expired))
    }

    @Test(
        arguments: [
            (nil, 5_000), (0, 1_000), (-5, 1_000), (.nan, 1_000), (0.5, 1_000), (7.25, 7_250), (1e300, 60_000), (-1e300, 1_000),
        ] as [(Double?, Int64)]
    )
    func intervalIsClamped(_ interval: Double?, _ first: Int64) {
        #expect(DeviceGrantPolling(life: 600, interval: interval).begin() == .ask(at: first))
    }

    @Test(arguments: [(-1, 0), (0, 0), (.nan, 0), (1e300, 1_800_000), (60, 60_000)] as [(Double, Int64)])
    func lifeIsClamped(_ life: Double, _ ends: Int64) {
        let polling = DeviceGrantPolling(life: life, interval: 5)
        #expect(polling.ends == ends)
        #expect(polling.begin() == (ends == 0 ? .end(.expired) : .ask(at: 5_000)))
    }
}
