// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayServer

struct ReadGateTests {
    @Test func openGateKeepsNothing() {
        var gate = ReadGate()
        #expect(gate.passes(.read) && gate.passes(.end))
        #expect(gate.takeWaiting() == nil)
    }

    @Test func gateOpensWhenNoReasonIsLeft() {
        var gate = ReadGate(heldBy: .receiver)
        gate.hold(.budget)
        #expect(gate.passes(.read) == false)
        gate.release(.receiver)
        #expect(!gate.isOpen && gate.isHeld(by: .budget) && !gate.isHeld(by: .receiver))
        #expect(gate.takeWaiting() == nil)
        gate.release(.budget)
        #expect(gate.takeWaiting() == .read)
        #expect(gate.takeWaiting() == nil)
    }

    /// A read that was asked for before the end has nothing to read any more.
    @Test func endTakesThePlaceOfARead() {
        var gate = ReadGate(heldBy: .budget)
        #expect(!gate.passes(.read) && !gate.passes(.end) && !gate.passes(.read))
        gate.release(.budget)
        #expect(gate.takeWaiting() == .end)
    }
}
