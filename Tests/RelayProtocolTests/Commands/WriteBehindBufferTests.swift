// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct WriteBehindBufferTests {
    private let delay = WriteBehindBuffer<String, Int>.delay

    @Test func valuesAreDueAfterTheDelay() {
        var buffer = WriteBehindBuffer<String, Int>()
        buffer.keep(1, for: "a", now: 0)
        buffer.keep(2, for: "b", now: 1)
        #expect(buffer.takeDue(now: delay - 1).isEmpty)
        #expect(buffer.takeDue(now: delay) == [1])
        #expect(buffer.takeDue(now: delay).isEmpty)
        buffer.keep(3, for: "c", now: 1)
        #expect(buffer.takeDue(now: delay + 1).sorted() == [2, 3])
        #expect(buffer.isEmpty)
        buffer.keep(4, for: "d", now: 0)
        buffer.keep(5, for: "e", now: 0)
        buffer.remove("d")
        #expect(buffer.takeAll() == [5])
        #expect(buffer.isEmpty)
    }

    @Test func newerValuesDoNotExtendTheDelay() {
        var buffer = WriteBehindBuffer<String, Int>()
        for now in 0...delay { buffer.keep(Int(now), for: "a", now: now) }
        #expect(buffer["a"] == Int(delay))
        #expect(buffer.takeDue(now: delay) == [Int(delay)])
    }
}
