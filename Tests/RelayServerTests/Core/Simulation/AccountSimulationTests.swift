// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// The guarantees of launches and messages: the SDK's and the relay's own state machines together, under random faults.
@Suite(.timeLimit(.minutes(Sweep.isFull ? 600 : 10))) struct AccountSimulationTests {
    enum Faults: String, CaseIterable, CustomTestStringConvertible {
        /// No faults: every command that is not cancelled or expired must get the handler's answer.
        case none
        /// Connections break.
        case connections
        /// Processes end and writes fail, between any two actions.
        case crashes
        /// The account also goes from node to node.
        case moves
        /// The relay also loses its database.
        case lostDatabase
        /// The stored state of senders, target or relay also goes back to an earlier one, or is empty.
        case restored

        var testDescription: String { rawValue }

        var crashes: Bool { self == .crashes || self == .moves || self == .lostDatabase || self == .restored }

        var expected: Set<CommandOutcome> {
            let always: Set<CommandOutcome> = [.succeeded, .declined, .failed(reason: "no"), .expired, .cancelled]
            if self == .restored { return always.union([.indeterminate(.forgotten)]) }
            return crashes ? always.union([.indeterminate(.interrupted), .indeterminate(.timedOut)]) : always
        }
    }

    /// Seeds that have found a fault.
    private static let found: [UInt64] = [87_169, 505_568, 508_564]

    @Test(arguments: Faults.allCases) func promisesAreKept(under faults: Faults) throws {
        var outcomes: Set<CommandOutcome> = []
        for seed in Sweep.seeds(30, full: 1_000, found: Self.found) {
            var walk = Walk(seed: seed, faults: faults)
            try walk.run(steps: 1_500)
            try walk.drain()
            #expect(walk.simulation.violations.isEmpty, "seed \(seed): \(walk.simulation.violations)")
            #expect(walk.unfinished.isEmpty, "seed \(seed): \(walk.unfinished)")
            outcomes.formUnion(walk.simulation.history.outcomes)
        }
        // The walk must reach all outcomes, otherwise it proves nothing.
        #expect(faults.expected.isSubset(of: outcomes), "never \(faults.expected.subtracting(outcomes))")
        if !faults.crashes { #expect(outcomes.allSatisfy { if case .indeterminate = $0 { false } else { true } }) }
    }

    /// A seeded random walk through an `AccountSimulation`.
    private struct Walk {
        private(set) var simulation: AccountSimulation
        private(set) var unfinished: [String] = []
        private var random: SeededGenerator
        private let faults: Faults

        init(seed: UInt64, faults: Faults) {
            var random = SeededGenerator(seed: seed)
            self.faults = faults
            simulation = AccountSimulation(skews: (0..<3).map { _ in Int64.random(in: -3_600_000...3_600_000, using: &random) })
            self.random = random
        }

        mutating func run(steps: Int) throws {
            // Senders know only targets that have connected.
            try simulation.apply(.connect(2))
            while !simulation.world.waiting.isEmpty { try simulation.apply(.work) }
            for _ in 0..<steps where simulation.violations.isEmpty { try simulation.apply(step()) }
        }

        private mutating func chance(_ percent: Double) -> Bool { Double.random(in: 0..<100, using: &random) < percent }

        private mutating func step() -> AccountSimulation.Step {
            if chance(2.5) { return submission() }
            if chance(1), let step = cancellation() { return step }
            if chance(8), let step = handlerStep() { return step }
            if let down = simulation.nodes.first(where: { simulation.links[$0].state == .down }), chance(10) { return .connect(down) }
            if faults != .none, chance(4), let step = fault() { return step }
            if chance(1.5) { return chance(50) ? .tick : .pass(Int64.random(in: 1...20_000, using: &random)) }
            return simulation.due.randomElement(using: &random) ?? .tick
        }

        private mutating func submission() -> AccountSimulation.Step {
            let lives: [Int64] = [15_000, 60_000, 300_000, 3_600_000, 86_400_000]
            return .submit(
                sender: Int.random(in: 0..<2, using: &random),
                app: chance(70) ? "player" : "photos",
                life: lives.randomElement(using: &random) ?? 60_000
            )
        }

        private mutating func cancellation() -> AccountSimulation.Step? {
            let sender = Int.random(in: 0..<2, using: &random)
            return simulation.senders[sender].open.randomElement(using: &random).map { .cancel(sender: sender, $0.command.id) }
        }

        private mutating func handlerStep() -> AccountSimulation.Step? {
            guard let command = simulation.target.handlers.randomElement(using: &random) else { return nil }
            if faults.crashes, chance(5) { return .timeOut(command.key) }
            let outcomes: [CommandOutcome] = [.succeeded, .succeeded, .declined, .failed(reason: "no")]
            return .answer(command.key, outcomes.randomElement(using: &random) ?? .succeeded)
        }

        private mutating func fault() -> AccountSimulation.Step? {
            let node = Int.random(in: 0..<3, using: &random)
            if faults == .restored, chance(20) {
                let steps: [AccountSimulation.Step] = [.backUp(node), .restore(node), .backUpRelay, .restoreRelay]
                return steps.randomElement(using: &random)
            }
            if faults == .moves, chance(30) { return .move(commits: chance(50)) }
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<25: return .disconnect(node, isSilent: chance(50))
            case 25..<40: return .cut(node)
            case 40..<60: return faults.crashes ? .crash(node) : nil
            case 60..<75: return faults.crashes ? .failTransaction : nil
            case 75..<88: return faults.crashes ? .failToStore(node) : nil
            default:
                guard faults.crashes else { return nil }
                return .crashRelay(commits: chance(50), losesDatabase: faults == .lostDatabase && chance(30))
            }
        }

        // MARK: Draining

        /// Lets all nodes finish: first on the connections that are there, then on new ones, and after all periods have passed.
        mutating func drain() throws {
            for node in simulation.nodes where simulation.links[node].isCut {
                try simulation.apply(.disconnect(node, isSilent: true))
            }
            try settle()
            noteUnfinished("at once")
            try reconnect()
            noteUnfinished("on new connections")
            if !simulation.world.rows.tables.commands.isEmpty { unfinished.append("the relay keeps commands") }
            for _ in 0..<3 {
                try simulation.apply(.pass(20 * 86_400_000))
                try simulation.apply(.tick)
                try reconnect()
            }
            noteUnfinished("in the end")
            if !simulation.target.rows.isEmpty { unfinished.append("the target keeps commands") }
        }

        private mutating func noteUnfinished(_ when: String) {
            for sender in simulation.senders {
                for row in sender.open { unfinished.append("\(when): \(row.command.number) is \(row.state)") }
            }
        }

        private mutating func reconnect() throws {
            for _ in 0..<3 {
                for node in simulation.nodes { try simulation.apply(.disconnect(node, isSilent: false)) }
                try settle()
            }
        }

        private mutating func settle() throws {
            while simulation.violations.isEmpty {
                if let down = simulation.nodes.first(where: { simulation.links[$0].state == .down }) {
                    try simulation.apply(.connect(down))
                } else if let step = simulation.due.first {
                    try simulation.apply(step)
                } else if let command = simulation.target.handlers.first {
                    try simulation.apply(.answer(command.key, .succeeded))
                } else if let sender = simulation.senders.firstIndex(where: { !$0.retries.isEmpty }) {
                    try simulation.apply(.retry(sender: sender))
                } else {
                    break
                }
            }
        }
    }
}
