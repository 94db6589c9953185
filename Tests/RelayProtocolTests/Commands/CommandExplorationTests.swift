// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

/// One command with a fault at every possible moment: between any two actions and frames.
@Suite struct CommandExplorationTests {
    @Test(arguments: Exploration.Schedule.allCases)
    func commandsSurviveOneFault(with schedule: Exploration.Schedule) {
        var exploration = Exploration(schedule)
        exploration.run(mishaps: 1)
        #expect(exploration.failure == nil)
        #expect(exploration.endings > 20, "\(exploration.endings)")
    }

    @Test(.disabled(if: Sweep.isQuick, "takes a quarter of the time of all tests that start no program")) func commandsSurviveTwoFaults() {
        var exploration = Exploration(.oldestFirst)
        exploration.run(mishaps: 2)
        #expect(exploration.failure == nil)
        #expect(exploration.endings > 300, "\(exploration.endings)")
    }
}

/// Runs a `CommandWorld` with one command to its end, once for each place of a fault.
struct Exploration {
    enum Schedule: CaseIterable {
        case oldestFirst
        case framesFirst
        case handlerLast
    }

    private let schedule: Schedule
    private(set) var failure: String?
    private(set) var endings = 0
    /// Different prefixes soon reach the same state, which is explored once.
    private var seen: [Int: Set<CommandWorld>] = [:]

    init(_ schedule: Schedule) {
        self.schedule = schedule
    }

    mutating func run(mishaps: Int) {
        var world = CommandWorld(senders: 1, targets: 1, skews: [0, 0])
        world.apply(.connect(0))
        world.apply(.connect(1))
        let lane = CommandLane(sender: world.senders[0].id, target: world.targets[0].id, appID: "player")
        world.apply(.submit(sender: 0, lane: lane, life: 60_000))
        explore(world, mishaps: mishaps, path: [])
    }

    private mutating func explore(_ start: CommandWorld, mishaps: Int, path: [CommandWorld.Step]) {
        var world = start
        for step in 0..<300 {
            guard failure == nil else { return }
            guard world.violations.isEmpty else { return fail("\(world.violations)", path, step) }
            guard seen[mishaps, default: []].insert(world).inserted else { return }
            if mishaps > 0 {
                for mishap in all(in: world) {
                    var other = world
                    other.apply(mishap)
                    explore(other, mishaps: mishaps - 1, path: path + [mishap])
                }
            }
            guard let next = next(in: world) else {
                endings += 1
                // All nodes are up, and nothing is pending.
                if let row = world.journals[0].stored.values.first, !row.isEnded { fail("stuck in \(row.state)", path, step) }
                return
            }
            world.apply(next)
        }
        fail("no end", path, 300)
    }

    private mutating func fail(_ what: String, _ path: [CommandWorld.Step], _ step: Int) {
        failure = failure ?? "\(what) at step \(step) after \(path)"
    }

    private func all(in world: CommandWorld) -> [CommandWorld.Step] {
        var steps: [CommandWorld.Step] = [
            .crash(0), .crash(1), .crashRelay(losingDatabase: false), .crashRelay(losingDatabase: true), .restoreRelay,
            .restore(0),
            .pass(60_000), .pass(60_000 + CommandPeriod.grace), .pass(8 * 86_400_000),
        ]
        for node in 0..<2 {
            if world.links[node].isUp { steps.append(.disconnect(node)) }
            if world.due(node).contains(.store(node)) { steps.append(.failToStore(node)) }
        }
        if let id = world.journals[0].open.first { steps.append(.cancel(sender: 0, id)) }
        if let command = world.targets[0].handlers.first { steps.append(.timeOut(target: 0, command.key)) }
        return steps
    }

    private func next(in world: CommandWorld) -> CommandWorld.Step? {
        var work: [CommandWorld.Step] = []
        var late: [CommandWorld.Step] = []
        for node in 0..<2 {
            let due = world.due(node)
            work += due.filter { $0 != .lingered(node) }
            late += due.filter { $0 == .lingered(node) }
        }
        if !world.relay.queue.isEmpty { work.append(.workAtRelay) }
        var frames: [CommandWorld.Step] = []
        for node in 0..<2 {
            if !world.links[node].isUp { frames.append(.connect(node)) }
            for (index, pipe) in world.links[node].up.enumerated() where !pipe.frames.isEmpty {
                frames.append(.deliverUp(link: node, pipe: index, twice: false))
            }
            for (index, pipe) in world.links[node].down.enumerated() where !pipe.frames.isEmpty {
                frames.append(.deliverDown(link: node, pipe: index, twice: false))
            }
        }
        let isLate = world.relay.rows.values.contains { !$0.isFinal && $0.nextDeadline <= world.now }
        let tick: [CommandWorld.Step] = isLate ? [.tick] : []
        let answers = world.targets[0].handlers.map { CommandWorld.Step.answer(target: 0, $0.key, .succeeded) }
        return switch schedule {
        case .oldestFirst: (work + tick + answers + frames + late).first
        case .framesFirst: (frames + answers + tick + work + late).first
        case .handlerLast: (work + frames + tick + answers + late).first
        }
    }
}
