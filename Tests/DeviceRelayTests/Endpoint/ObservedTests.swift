// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import DeviceRelay

struct ObservedTests {
    @Test func eachWaitsForItsOwnCondition() async {
        let observed = Observed(0)
        let waiting = [3, 1, 2, 3].map { wanted in Task { await observed.first { $0 >= wanted } } }
        for value in 1...3 {
            observed.update { $0 = value }
            await Task.yield()
        }
        for (task, wanted) in zip(waiting, [3, 1, 2, 3]) { #expect(await task.value.map { $0 >= wanted } == true) }
    }

    @Test func aConditionThatIsMetNeedsNoChange() async {
        let observed = Observed("here")
        #expect(await observed.first { $0 == "here" } == "here")
        observed.finish()
        #expect(await observed.first { $0 == "here" } == "here", "the final value counts too")
    }

    @Test func whoWaitsInVainLearnsTheEnd() async {
        let observed = Observed(0)
        let waiting = Task { await observed.first { $0 > 9 } }
        observed.update { $0 = 1 }
        observed.finish()
        #expect(await waiting.value == nil)
    }

    @Test func waitingEndsWithTheTaskAndWithTheTime() async {
        let observed = Observed(0)
        let waiting = Task { await observed.first { $0 > 9 } }
        let patient = Task { await observed.first(within: .seconds(60)) { $0 > 9 } }
        #expect(await observed.first(within: .milliseconds(20)) { $0 > 9 } == nil)
        waiting.cancel()
        #expect(await waiting.value == nil)
        // Another's end of time is not this one's.
        observed.update { $0 = 10 }
        #expect(await patient.value == 10)
    }

    @Test func changesAreSeenWhateverOthersWaitFor() async {
        let observed = Observed(0)
        let waiting = Task { await observed.first { $0 > 9 } }
        let first = await observed.next(after: 0)
        let second = Task { await observed.next(after: first?.revision ?? 0) }
        observed.update { $0 = 1 }
        #expect(await second.value?.value == 1)
        waiting.cancel()
    }
}
