// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import DeviceRelay

@Suite(.timeLimit(.minutes(10))) struct CurrentValueTests {
    private func wait(until count: Int, waitFor current: CurrentValue<Int>) async {
        while current.waiterCount != count { await Task.yield() }
    }

    @Test func waitersResumeOnlyWhenTheirConditionIsMet() async {
        let current = CurrentValue(0)
        let wishes = [3, 1, 2, 3]
        let waiting = wishes.map { wanted in Task { await current.first { $0 >= wanted } } }
        await wait(until: 4, waitFor: current)
        for (value, left) in [(1, 3), (2, 2), (3, 0)] {
            current.update { $0 = value }
            #expect(current.waiterCount == left)
        }
        for (task, wanted) in zip(waiting, wishes) { #expect(await task.value.map { $0 >= wanted } == true) }
    }

    @Test func metConditionReturnsAtOnce() async {
        let current = CurrentValue(7)
        #expect(await current.first { $0 == 7 } == 7)
        current.finish()
        #expect(await current.first { $0 == 7 } == 7, "the final value counts too")
    }

    @Test func finishResumesWaitersWithNil() async {
        let current = CurrentValue(0)
        let waiting = Task { await current.first { $0 > 9 } }
        await wait(until: 1, waitFor: current)
        current.update { $0 = 1 }
        current.finish()
        #expect(await waiting.value == nil)
    }

    @Test func waitEndsOnCancellationAndTimeout() async {
        let current = CurrentValue(0)
        let waiting = Task { await current.first { $0 > 9 } }
        let patient = Task { await current.first(within: .seconds(600)) { $0 > 9 } }
        await wait(until: 2, waitFor: current)
        #expect(await current.first(within: .milliseconds(20)) { $0 > 9 } == nil)
        waiting.cancel()
        #expect(await waiting.value == nil)
        // Another's end of time is not this one's.
        await wait(until: 1, waitFor: current)
        current.update { $0 = 10 }
        #expect(await patient.value == 10)
    }

    @Test func nextReturnsEachChange() async {
        let current = CurrentValue(0)
        let waiting = Task { await current.first { $0 > 9 } }
        let first = await current.next(after: 0)
        let second = Task { await current.next(after: first?.revision ?? 0) }
        await wait(until: 2, waitFor: current)
        current.update { $0 = 1 }
        #expect(await second.value?.value == 1)
        #expect(current.waiterCount == 1)
        waiting.cancel()
        #expect(await waiting.value == nil)
        #expect(current.waiterCount == 0)
    }
}
