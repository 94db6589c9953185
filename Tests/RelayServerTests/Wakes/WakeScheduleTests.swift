// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

@Suite struct WakeScheduleTests {
    private let start: Int64 = 1_000_000

    private func at(_ seconds: Int64) -> Int64 { start + seconds * 1_000 }

    /// When wakes are sent, in seconds, if each is sent as soon as it is due.
    private func wakes(_ count: Int, _ urgency: WakePayload.Urgency) -> [Int64] {
        var schedule = WakeSchedule()
        var now = start
        return (0..<count).map { _ in
            now = max(now, schedule.next(urgency) ?? now)
            schedule.sent(urgency, at: now)
            return (now - start) / 1_000
        }
    }

    @Test func urgentWakeIsRepeated() {
        #expect(wakes(8, .urgent) == [0, 60, 300, 1_800, 7_200, 43_200, 86_400, 129_600])
    }

    @Test func backgroundWakesAreTwentyMinutesApart() {
        #expect(wakes(6, .background) == [0, 1_200, 2_400, 7_200, 43_200, 86_400])
    }

    @Test func urgentWakeIsNotDelayedByBackgroundWakes() {
        var schedule = WakeSchedule()
        schedule.sent(.background, at: start)
        #expect(schedule.next(.urgent) == nil)
        schedule.sent(.urgent, at: at(1))
        #expect(schedule.next(.urgent) == at(61))
        #expect(schedule.next(.background) == at(1_201))
    }

    @Test func newCommandStartsTheScheduleAgain() {
        var schedule = WakeSchedule()
        schedule.sent(.urgent, at: start)
        // A minute has not passed: the wake of that time counts for the new command too.
        schedule.add(.urgent, at: at(30))
        #expect(schedule.next(.urgent) == at(60))
        schedule.sent(.urgent, at: at(60))
        schedule.add(.urgent, at: at(400))
        #expect(schedule.next(.urgent) == at(400))
        schedule.sent(.urgent, at: at(400))
        #expect(schedule.next(.urgent) == at(460))
    }

    @Test func connectedEndpointIsWokenAtOnceAgain() {
        var schedule = WakeSchedule()
        schedule.sent(.urgent, at: start)
        schedule.connected()
        #expect(schedule.next(.urgent) == nil && schedule.next(.background) == nil)
    }
}
