// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayPush

@Suite struct WakeScheduleTests {
    private let start = Milliseconds(clamping: 1_000_000)

    private func at(_ seconds: Int64) -> Milliseconds { Milliseconds(clamping: start.count + seconds * 1_000) }

    /// When wakes are sent, in seconds, if each is sent as soon as it is due.
    private func wakes(_ count: Int, _ urgency: WakePayload.Urgency) -> [Int64] {
        var schedule = WakeSchedule()
        var now = start
        return (0..<count).map { _ in
            now = max(now, schedule.due(urgency, now: now))
            schedule.sent(urgency, at: now)
            return (now.count - start.count) / 1_000
        }
    }

    @Test func anUrgentWakeIsRepeated() {
        #expect(wakes(8, .urgent) == [0, 60, 300, 1_800, 7_200, 43_200, 86_400, 129_600])
    }

    @Test func aSilentWakeIsRepeatedEvery20MinutesAtMost() {
        #expect(wakes(7, .background) == [0, 1_200, 2_400, 3_600, 7_200, 43_200, 86_400])
    }

    @Test func aPersonWhoWaitsIsNotHeldUpBySilentWakes() {
        var schedule = WakeSchedule()
        schedule.sent(.background, at: start)
        #expect(schedule.due(.urgent, now: at(1)) == at(1))
        schedule.sent(.urgent, at: at(1))
        #expect(schedule.due(.urgent, now: at(2)) == at(61))
        #expect(schedule.due(.background, now: at(2)) == at(1_201))
    }

    @Test func anEndpointThatConnectedIsWokenAtOnceAgain() {
        var schedule = WakeSchedule()
        schedule.sent(.urgent, at: start)
        schedule.connected()
        #expect(schedule.due(.urgent, now: at(1)) == at(1))
    }
}
