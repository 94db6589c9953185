// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayServer

@Suite struct SpliceDirectionTests {
    @Test func stopsReadingUntilTheRestIsWritten() {
        var direction = SpliceDirection()
        #expect(direction.isReading && !direction.isWriting)
        direction.keep([1, 2, 3])
        #expect(!direction.isReading && direction.isWriting)
        direction.wrote(2)
        #expect(direction.rest == [3] && !direction.isReading)
        direction.wrote(0)
        #expect(direction.rest == [3])
        direction.wrote(1)
        #expect(direction.isReading && !direction.isWriting)
    }

    @Test func endIsPassedOnOnceAfterTheRest() {
        var direction = SpliceDirection()
        expectEnd(false, &direction)
        direction.keep([1])
        direction.end()
        #expect(!direction.isReading && direction.isWriting)
        expectEnd(false, &direction)
        direction.wrote(1)
        #expect(!direction.isReading && !direction.isWriting)
        expectEnd(true, &direction)
        #expect(direction.isDone)
        expectEnd(false, &direction)
    }

    @Test func beginsWithBytesThatWereReadBefore() {
        var direction = SpliceDirection(rest: [7], hasEnded: true)
        #expect(direction.isWriting && !direction.isReading)
        expectEnd(false, &direction)
        direction.wrote(1)
        expectEnd(true, &direction)
    }

    private func expectEnd(_ isPassedOn: Bool, _ direction: inout SpliceDirection) {
        let passed = direction.passOnEnd()
        #expect(passed == isPassedOn)
    }
}
