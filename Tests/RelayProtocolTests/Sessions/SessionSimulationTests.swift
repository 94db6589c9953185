// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct SessionSimulationTests {
    /// Small limits that are often reached.
    private static let narrow: Limits = {
        var limits = Limits()
        limits[.messageBytes] = 400_000
        limits[.assemblyBytesPerSession] = 500_000
        limits[.connectionsPerSession] = 4
        limits[.requestsPerConnection] = 12
        return limits
    }()

    @Test(arguments: 0..<Sweep.count(45 as UInt64, full: 1_000)) func correctSidesLoseAndRetainNothing(seed: UInt64) {
        var simulation = SessionSimulation(seed: seed, limits: seed % 3 == 0 ? Limits() : Self.narrow)
        for _ in 0..<1_500 { simulation.step() }
        simulation.settle()
        simulation.checkSettled()
        for _ in 0..<100 { simulation.step() }

        switch seed % 3 {
        case 0:
            simulation.breakOff()
        case 1:
            simulation.run(Int(seed % 2)) { $0.drain(into: &$1) }
            for _ in 0..<100 { simulation.step() }
            simulation.settle()
            closeAll(&simulation)
        default:
            simulation.settle()
            closeAll(&simulation)
            simulation.checkSettled()
            simulation.run(0) { $0.drain(into: &$1) }
        }
        simulation.settle()
        simulation.checkSettled()
        simulation.checkEnded()
    }

    private func closeAll(_ simulation: inout SessionSimulation) {
        for side in 0...1 {
            while !simulation.sides[side].open.isEmpty || !simulation.sides[side].opening.isEmpty {
                simulation.close(side)
                simulation.settle()
            }
        }
    }

    @Test func simulationReachesAllResults() {
        var results = (responses: 0, failures: 0, large: 0)
        for seed: UInt64 in 1_000..<1_004 {
            var simulation = SessionSimulation(seed: seed, limits: Limits())
            for _ in 0..<1_500 { simulation.step() }
            simulation.settle()
            results.responses += simulation.results.responses
            results.failures += simulation.results.failures
            results.large += simulation.results.large
        }
        #expect(results.responses > 200)
        #expect(results.failures > 20)
        #expect(results.large > 20)
    }
}
