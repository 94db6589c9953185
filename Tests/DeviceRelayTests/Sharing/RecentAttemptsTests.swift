// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// What a receiver remembers of transfers is bounded, and no device takes the memory of another.
@Suite struct RecentAttemptsTests {
    private func attempt(_ sender: UInt8, _ number: Int) -> ShareAttempt {
        ShareAttempt(sender: EndpointID(digest: Digest256(hashing: [sender])), id: Array("\(number)".utf8), content: .zero)
    }

    @Test func deviceWithManyTransfersTakesNoPlaceOfAnother() {
        var recent = RecentAttempts<Int>()
        recent.add(-1, of: attempt(1, 0))
        for number in 0..<1_000 { recent.add(number, of: attempt(2, number)) }
        #expect(recent[attempt(1, 0)] == -1)
        #expect(recent[attempt(2, 999)] == 999)
        #expect(recent[attempt(2, 999 - RecentAttempts<Int>.ofADevice)] == nil)
        #expect(recent.count == RecentAttempts<Int>.ofADevice + 1)
    }

    @Test func oldestGoFirst() {
        var recent = RecentAttempts<Int>()
        for number in 0..<1_000 { recent.add(number, of: attempt(UInt8(number % 100), number)) }
        #expect(recent.count == RecentAttempts<Int>.ofAll)
        for number in 0..<1_000 {
            #expect((recent[attempt(UInt8(number % 100), number)] != nil) == (number >= 1_000 - RecentAttempts<Int>.ofAll))
        }
    }

    @Test func longListsAreForgottenEarlier() {
        var recent = RecentAttempts<Int>()
        let half = RecentAttempts<Int>.items / 2
        for number in 0..<3 { recent.add(number, of: attempt(UInt8(number), 0), items: half) }
        #expect(recent[attempt(0, 0)] == nil && recent[attempt(1, 0)] == 1 && recent[attempt(2, 0)] == 2)
        recent.add(3, of: attempt(3, 0), items: 100 * half)
        #expect(recent.count == 1 && recent[attempt(3, 0)] == 3)
    }

    @Test func repeatedAttemptHasOneValue() {
        var recent = RecentAttempts<Int>()
        recent.add(1, of: attempt(1, 0))
        recent.add(2, of: attempt(1, 0))
        #expect(recent.count == 1 && recent[attempt(1, 0)] == 2)
    }
}
