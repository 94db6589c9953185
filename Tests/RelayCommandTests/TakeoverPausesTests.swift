// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayAgent

@Suite struct TakeoverPausesTests {
    @Test func pausesGrowToAnHour() {
        var pauses = TakeoverPauses()
        var (now, all) = (ContinuousClock.now, [Duration]())
        for _ in 0..<9 {
            let pause = pauses.next(at: now)
            all.append(pause)
            now += pause + .seconds(5)
        }
        #expect(all == [60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600].map { .seconds($0) })
        // Left alone for long.
        #expect(pauses.next(at: now + .seconds(3 * 3_600)) == .seconds(60))
    }
}
