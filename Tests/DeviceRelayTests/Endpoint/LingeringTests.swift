// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import DeviceRelay

@Suite struct LingeringTests {
    private let time = Lingering<String, Int>.time

    @Test func whatStaysIsDueAfterItsTimeAndNotBefore() {
        var lingering = Lingering<String, Int>()
        lingering.keep(1, for: "a", now: 0)
        lingering.keep(2, for: "b", now: 1)
        #expect(lingering.due(now: time - 1).isEmpty)
        #expect(lingering.due(now: time) == [1])
        #expect(lingering.due(now: time + 1).sorted() == [1, 2])
        lingering.remove("a")
        #expect(lingering.all == [2])
        #expect(lingering.takeAll() == [2])
        #expect(lingering.isEmpty)
    }

    @Test func newerValuesDoNotPutItOff() {
        var lingering = Lingering<String, Int>()
        for now in 0...time { lingering.keep(Int(now), for: "a", now: now) }
        #expect(lingering.due(now: time) == [Int(time)])
        #expect(lingering["a"] == Int(time))
    }
}
