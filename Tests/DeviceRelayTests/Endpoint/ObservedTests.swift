// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import DeviceRelay

@Suite(.timeLimit(.minutes(10))) struct ObservedTests {
    private func wait(until count: Int, waitFor observed: Observed<Int>) async {
        while observed.waiterCount != count { await Task.yield() }
    }

    @Test func eachIsWokenByWhatItWaitsForAlone() async {
        let observed = Observed(0)
        let wishes = [3, 1, 2, 3]
        let waiting = wishes.map { wanted in Task { await observed.first { $0 >= wanted } } }
        await wait(until: 4, waitFor: observed)
        for (value, left) in [(1, 3), (2, 2), (3, 0)] {
            observed.update { $0 = value }
            #expect(observed.waiterCount == left)
        }
        for (task, wanted) in zip(waiting, wishes) { #expect(await task.value.map { $0 >= wanted } == true) }
    }

    @Test func aConditionThatIsMetNeedsNoChange() async {
        let observed = Observed(7)
        #expect(await observed.first { $0 == 7 } == 7)
        observed.finish()
        #expect(await observed.first { $0 == 7 } == 7, "the final value counts too")
    }

    @Test func whoWaitsInVainLearnsTheEnd() async {
        let observed = Observed(0)
        let waiting = Task { await observed.first { $0 > 9 } }
        await wait(until: 1, waitFor: observed)
        observed.update { $0 = 1 }
        observed.finish()
        #expect(await waiting.value == nil)
    }

    @Test func waitingEndsWithTheTaskAndWithTheTime() async {
        let observed = Observed(0)
        let waiting = Task { await observed.first { $0 > 9 } }
        let patient = Task { await observed.first(within: .seconds(600)) { $0 > 9 } }
        await wait(until: 2, waitFor: observed)
        #expect(await observed.first(within: .milliseconds(20)) { $0 > 9 } == nil)
        waiting.cancel()
        #expect(await waiting.value == nil)
        // Another's end of time is not this one's.
        await wait(until: 1, waitFor: observed)
        observed.update { $0 = 10 }
        #expect(await patient.value == 10)
    }

    @Test func changesAreSeenWhateverOthersWaitFor() async {
        let observed = Observed(0)
        let waiting = Task { await observed.first { $0 > 9 } }
        let first = await observed.next(after: 0)
        let second = Task { await observed.next(after: first?.revision ?? 0) }
        await wait(until: 2, waitFor: observed)
        observed.update { $0 = 1 }
        #expect(await second.value?.value == 1)
        #expect(observed.waiterCount == 1)
        waiting.cancel()
        #expect(await waiting.value == nil)
        #expect(observed.waiterCount == 0)
    }
}
