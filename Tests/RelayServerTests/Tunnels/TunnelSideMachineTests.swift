// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayServer

/// One side of a tunnel, without connections.
struct TunnelSideMachineTests {
    private func paired(_ generation: Int = 1) -> TunnelSideMachine {
        var machine = TunnelSideMachine()
        #expect(machine.paired(generation: generation, isActive: true) == .begin(greets: true))
        machine.began()
        return machine
    }

    private func used() -> TunnelSideMachine {
        var machine = paired()
        #expect(machine.nextStep(hasBytes: true) == .announce(generation: 1))
        machine.announced(isCurrent: true)
        return machine
    }

    @Test func nothingIsReadBeforeThePairing() {
        var machine = TunnelSideMachine()
        #expect(machine.wantsRead() == false)
        #expect(machine.nextStep(hasBytes: true) == nil)
        #expect(machine.paired(generation: 1, isActive: true) == .begin(greets: true))
        #expect(machine.takeRead() == false)
        machine.began()
        #expect(machine.takeRead() == true)
        #expect(machine.takeRead() == false)
    }

    @Test func clientIsGreetedOnce() {
        var machine = paired()
        #expect(machine.paired(generation: 2, isActive: true) == .begin(greets: false))
        #expect(machine.nextStep(hasBytes: true) == .announce(generation: 2))
    }

    @Test func bytesWaitForANewerPairing() {
        var machine = paired()
        machine.announced(isCurrent: false)
        #expect(machine.wantsRead() == false)
        #expect(machine.paired(generation: 2, isActive: true) == .begin(greets: false))
        machine.began()
        #expect(machine.takeRead() == true)
        machine.announced(isCurrent: true)
        #expect(machine.nextStep(hasBytes: true) == .handOver(isEnd: false))
        #expect(machine.nextStep(hasBytes: false) == nil)
    }

    @Test func fullPipeStopsReading() {
        var machine = used()
        #expect(machine.handedOver(hasRoom: false) == false)
        #expect(machine.wantsRead() == false)
        #expect(machine.resumes() == true)
        #expect(machine.resumes() == false)
        #expect(machine.wantsRead() == true)
    }

    @Test func endWithoutPairingGivesUp() {
        var machine = TunnelSideMachine()
        #expect(machine.inputEnded() == true)
        #expect(machine.broken() == .nothing)
    }

    @Test(arguments: [true, false]) func connectionClosesAfterBothEnds(isInputFirst: Bool) {
        var machine = used()
        if isInputFirst {
            #expect(machine.inputEnded() == false)
            #expect(machine.nextStep(hasBytes: false) == .handOver(isEnd: true))
            #expect(machine.handedOver(hasRoom: true) == false)
            #expect(machine.outputDone() == .close)
        } else {
            #expect(machine.outputDone() == .closeOutput)
            #expect(machine.inputEnded() == false)
            #expect(machine.handedOver(hasRoom: true) == true)
        }
        #expect(machine.outputDone() == nil)
        #expect(machine.nextStep(hasBytes: true) == nil)
        #expect(machine.broken() == .nothing)
    }

    @Test func breakBeforeBothEndsAborts() {
        var machine = paired(7)
        #expect(machine.broken() == .abortIfCurrent(generation: 7))
        machine.announced(isCurrent: true)
        #expect(machine.broken() == .abort)
        #expect(machine.outputDone() == .closeOutput)
        #expect(machine.broken() == .abort)
    }

    @Test func dismissedClientIsToldTheReason() {
        var machine = TunnelSideMachine()
        #expect(machine.wantsRead() == false)
        #expect(machine.dismissed() == .refuse)
        #expect(machine.dismissed() == nil)
        // Its connection is read until it closes.
        #expect(machine.resumes() == true)
        #expect(machine.inputEnded() == true)
        #expect(machine.paired(generation: 1, isActive: true) == .breakOff)
    }

    @Test func dismissedPairIsBrokenOff() {
        var machine = used()
        #expect(machine.dismissed() == .close)
        #expect(machine.nextStep(hasBytes: true) == nil)
        #expect(machine.broken() == .abort)
    }

    @Test func closedConnectionIsOfNoUse() {
        var machine = TunnelSideMachine()
        #expect(machine.paired(generation: 1, isActive: false) == .breakOff)
        #expect(!machine.isGreeted)
    }

    @Test func socketThatHasLeftDoesNothing() {
        var machine = used()
        machine.transfers()
        machine.leaves()
        #expect(machine.hasLeft)
        #expect(machine.paired(generation: 2, isActive: true) == .nothing)
        #expect(machine.nextStep(hasBytes: true) == nil)
        #expect(machine.broken() == .nothing)
    }

    /// Walks of events in any order: bytes pass only with the gate's consent, the end passes once, and no read that is due is forgotten.
    @Test func randomWalksKeepTheRules() {
        for seed in 0..<2_000 as Range<UInt64> {
            var random = SeededGenerator(seed: seed)
            var machine = TunnelSideMachine()
            var (generation, ends, isGreeted, isAllowed, isReadDue) = (0, 0, false, false, false)
            for _ in 0..<40 {
                switch Int.random(in: 0..<9, using: &random) {
                case 0 where !isAllowed:
                    if case .begin(let greets) = machine.paired(generation: generation + 1, isActive: !random.oneIn(8)) {
                        generation += 1
                        #expect(greets == !isGreeted, "seed \(seed)")
                        isGreeted = true
                        machine.began()
                    }
                case 1, 2, 3:
                    let hasBytes = random.oneIn(2)
                    switch machine.nextStep(hasBytes: hasBytes) {
                    case .announce(let announced):
                        #expect(announced == generation && !isAllowed, "seed \(seed)")
                        isAllowed = random.oneIn(2)
                        machine.announced(isCurrent: isAllowed)
                    case .handOver(let isEnd):
                        #expect(isAllowed && ends == 0 && isEnd == machine.hasInputEnded, "seed \(seed)")
                        if isEnd { ends += 1 }
                        #expect(machine.handedOver(hasRoom: random.oneIn(2)) == machine.isComplete, "seed \(seed)")
                    case nil: break
                    }
                case 4: isReadDue = !machine.wantsRead() || isReadDue
                case 5: if machine.resumes() { isReadDue = false } else { #expect(!isReadDue, "seed \(seed)") }
                case 6: _ = machine.inputEnded()
                case 7: _ = machine.outputDone()
                case 8 where random.oneIn(4):
                    if machine.dismissed() != nil { #expect(machine.nextStep(hasBytes: true) == nil, "seed \(seed)") }
                default: if machine.takeRead() { isReadDue = false }
                }
                #expect(machine.isComplete == (machine.broken() == .nothing && isAllowed && ends == 1), "seed \(seed)")
            }
        }
    }
}
