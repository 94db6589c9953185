// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

/// The guarantees of launches and messages under random faults.
@Suite struct CommandModelTests {
    /// Seeds that have found a fault.
    private static let found: [UInt64] = [
        507_749, 507_806, 507_844, 508_109, 2_000_132, 2_000_174, 2_000_269, 2_000_646, 2_000_718, 2_000_815, 2_000_902,
    ]

    @Test(arguments: CommandWalk.Faults.allCases)
    func commandInvariantsHold(under faults: CommandWalk.Faults) {
        var outcomes: [CommandOutcome: Int] = [:]
        var rejections: [String: Int] = [:]
        for seed in Sweep.seeds(40, full: 1_000, found: Self.found) {
            var walk = CommandWalk(seed: seed, faults: faults)
            walk.run(steps: 2_500)
            #expect(walk.world.violations.isEmpty, "seed \(seed): \(walk.world.violations)")
            walk.drain()
            #expect(walk.world.violations.isEmpty, "seed \(seed), draining: \(walk.world.violations)")
            #expect(walk.unfinished.isEmpty, "seed \(seed): \(walk.unfinished)")
            outcomes.merge(walk.world.history.outcomes, uniquingKeysWith: +)
            rejections.merge(walk.world.history.rejections, uniquingKeysWith: +)
        }
        // The walk must reach all outcomes, otherwise it proves nothing.
        for outcome in faults.expectedOutcomes { #expect(outcomes[outcome, default: 0] > 0, "never \(outcome)") }
        if !faults.crashes {
            let unknown = outcomes.filter { if case .indeterminate = $0.key { $0.value > 0 } else { false } }
            #expect(unknown.isEmpty, "nobody stopped, and yet nobody knows")
        }
        for code in faults.expectedRejections { #expect(rejections[code, default: 0] > 0, "never \(code)") }
    }

    /// A sender whose stored state goes back uses a number again, while the relay has the first command with it.
    @Test func numberThatPassedAtTheRelayIsTakenAnew() {
        var walk = CommandWalk(seed: 0, faults: .none)
        walk.useANumberAgain { !$0.relay.stored.isEmpty }
        walk.drain()
        #expect(walk.world.violations.isEmpty, "\(walk.world.violations)")
        #expect(walk.unfinished.isEmpty, "\(walk.unfinished)")
        #expect(walk.world.history.outcomes == [.succeeded: 1])
        #expect(walk.world.history.handled.count == 2)
    }

    /// The same after the target has handled the first command, and the relay has forgotten it.
    @Test func numberThatPassedAtTheTargetIsTakenAnew() {
        var walk = CommandWalk(seed: 0, faults: .none)
        walk.useANumberAgain { !$0.history.outcomes.isEmpty && $0.relay.stored.isEmpty }
        walk.drain()
        #expect(walk.world.violations.isEmpty, "\(walk.world.violations)")
        #expect(walk.unfinished.isEmpty, "\(walk.unfinished)")
        #expect(walk.world.history.rejections.isEmpty)
        #expect(walk.world.history.outcomes == [.succeeded: 2])
        #expect(walk.world.history.handled.count == 2)
    }
}

/// A seeded random walk through a `CommandWorld`.
struct CommandWalk {
    enum Faults: String, CaseIterable, CustomTestStringConvertible {
        /// No faults: every command that is not cancelled or expired must get the handler's answer.
        case none
        /// Connections break.
        case connections
        /// Processes crash, between any two actions.
        case crashes
        /// The relay also loses its database.
        case lostDatabase
        /// Processes crash, and the stored state of senders goes back to an earlier one, or is empty.
        case restoredSenders
        /// The same for the stored state of targets. The relay never stops.
        case restoredTargets
        /// The same for senders, targets and the relay.
        case restored
        /// Time jumps, targets are removed, mailboxes are full.
        case everything
        /// Connections and direct sessions break, and two processes of each sender send in the same lanes.
        case paths
        /// The same, and processes crash.
        case pathsAndCrashes
        /// The same, and stored state goes back.
        case pathsAndRestored
        /// The same without returns of stored state: time jumps, targets are removed, mailboxes are full.
        case pathsAndEverything

        var restores: Bool { self == .restoredSenders || self == .restoredTargets || self == .restored || self == .pathsAndRestored }
        var hasPaths: Bool { self == .paths || self == .pathsAndCrashes || self == .pathsAndRestored || self == .pathsAndEverything }
        var crashes: Bool { self != .none && self != .connections && self != .paths }
        var isEverything: Bool { self == .everything || self == .pathsAndEverything }

        var testDescription: String { rawValue }

        var expectedOutcomes: [CommandOutcome] {
            let always: [CommandOutcome] = [.succeeded, .declined, .unsupported, .failed(reason: "no"), .expired, .cancelled]
            return switch self {
            case .none, .connections, .paths: always
            case .crashes, .lostDatabase, .pathsAndCrashes: always + [.indeterminate(.interrupted), .indeterminate(.timedOut)]
            case .restoredSenders, .restored, .pathsAndRestored: always + [.indeterminate(.forgotten)]
            case .restoredTargets: always + [.indeterminate(.forgotten)]
            case .everything, .pathsAndEverything:
                always + [.indeterminate(.interrupted), .indeterminate(.timedOut), .indeterminate(.targetLost), .failed(reason: "refused")]
            }
        }

        var expectedRejections: [String] { isEverything ? ["mailboxFull", "expired", "targetUnknown"] : [] }
    }

    private(set) var world: CommandWorld
    private var random: SeededGenerator
    private let faults: Faults

    init(seed: UInt64, faults: Faults) {
        var random = SeededGenerator(seed: seed)
        self.faults = faults
        let skews = (0..<4).map { _ in Int64.random(in: -3_600_000...3_600_000, using: &random) }
        var limits = Limits()
        if faults.isEverything { limits[.mailboxCommands] = 12 }
        self.world = CommandWorld(
            senders: 2,
            processes: faults.hasPaths ? 2 : 1,
            targets: 2,
            skews: skews,
            limits: limits,
            refusesEvery: faults.isEverything ? 7 : .max
        )
        self.random = random
    }

    mutating func run(steps: Int) {
        for _ in 0..<steps {
            world.apply(step())
            if !world.violations.isEmpty { return }
        }
    }

    /// A sender loses its stored state and takes a number again.
    /// - Parameter isTime: Whether it is time to lose the state.
    mutating func useANumberAgain(when isTime: (CommandWorld) -> Bool) {
        let lane = CommandLane(sender: world.senders[0].id, target: world.targets[0].id, appID: "player")
        for node in world.links.indices { world.apply(.connect(node)) }
        world.apply(.submit(sender: 0, lane: lane, life: 60_000))
        let start = world.now
        while !isTime(world) {
            if let step = due.first {
                world.apply(step)
            } else if let command = world.targets[0].handlers.first {
                world.apply(.answer(target: 0, command.key, .succeeded))
            } else {
                return
            }
        }
        // No time has passed, so the number is the same.
        world.now = start
        world.apply(.restore(0))
        world.apply(.connect(0))
        world.apply(.submit(sender: 0, lane: lane, life: 60_000))
    }

    private mutating func chance(_ percent: Double) -> Bool { Double.random(in: 0..<100, using: &random) < percent }

    private mutating func step() -> CommandWorld.Step {
        if chance(2.5) { return submission() }
        if chance(1), let step = cancellation() { return step }
        if chance(8) { return handlerStep() }
        if faults == .none {
            if let down = world.links.firstIndex(where: { !$0.isUp }), chance(20) { return .connect(down) }
        } else if chance(4), let step = faultStep() {
            return step
        }
        if chance(1.5) { return chance(50) ? .tick : .pass(Int64.random(in: 1...20_000, using: &random)) }
        return progress()
    }

    private mutating func submission() -> CommandWorld.Step {
        let sender = Int.random(in: world.senders.indices, using: &random)
        let lane = CommandLane(
            sender: world.senders[sender].id,
            target: world.targets[Int.random(in: 0..<2, using: &random)].id,
            appID: chance(70) ? "player" : "photos"
        )
        let lives: [Int64] = [15_000, 60_000, 300_000, 3_600_000, 86_400_000, 10 * 86_400_000]
        return .submit(sender: sender, lane: lane, life: lives.randomElement(using: &random) ?? 0)
    }

    private mutating func cancellation() -> CommandWorld.Step? {
        let sender = Int.random(in: world.senders.indices, using: &random)
        let open = world.journals[world.senders[sender].journal].open
        return open.randomElement(using: &random).map { .cancel(sender: sender, $0) }
    }

    private mutating func handlerStep() -> CommandWorld.Step {
        let target = Int.random(in: 0..<2, using: &random)
        guard let command = world.targets[target].handlers.randomElement(using: &random) else { return progress() }
        if faults.crashes, chance(5) { return .timeOut(target: target, command.key) }
        let outcomes: [CommandOutcome] = [.succeeded, .succeeded, .declined, .unsupported, .failed(reason: "no")]
        return .answer(target: target, command.key, outcomes.randomElement(using: &random) ?? .succeeded)
    }

    private mutating func faultStep() -> CommandWorld.Step? {
        let node = Int.random(in: world.links.indices, using: &random)
        if faults.restores, let step = restoration() { return step }
        if faults.hasPaths, chance(40) {
            let pairs = world.senders.indices.flatMap { sender in
                world.targets.indices.map { CommandWorld.Pair(sender: sender, target: $0) }
            }
            guard let pair = pairs.randomElement(using: &random) else { return nil }
            return chance(60) ? .connectDirectly(pair) : .disconnectDirectly(pair)
        }
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<45: return .connect(node)
        case 45..<62: return .disconnect(node)
        case 62..<68: return .losePipes(node)
        case 68..<80: return faults.crashes ? .crash(node) : nil
        case 80..<85: return !faults.crashes || faults == .restoredTargets ? nil : .crashRelay(losingDatabase: false)
        case 97, 98: return faults.crashes ? .failToStore(node) : nil
        case 85..<87: return faults == .lostDatabase || faults.isEverything ? .crashRelay(losingDatabase: true) : nil
        case 87..<92:
            guard faults.isEverything else { return nil }
            let leaps: [Int64] = [600_000, 600_000, 3_600_000, 90_000_000, 8 * 86_400_000]
            return leaps.randomElement(using: &random).map { .pass($0) }
        case 92: return faults.isEverything && chance(30) ? .revoke(target: 1) : nil
        case 93..<97: return forgery()
        default: return lie()
        }
    }

    /// A copy of stored state, or its return.
    private mutating func restoration() -> CommandWorld.Step? {
        let sender = Int.random(in: world.senders.indices, using: &random)
        let target = world.senders.count + Int.random(in: world.targets.indices, using: &random)
        let nodes: [CommandWorld.Step] =
            switch faults {
            case .restoredSenders: [.backUp(sender), .restore(sender)]
            case .restoredTargets: [.backUp(target), .restore(target)]
            default: [.backUp(sender), .restore(sender), .backUp(target), .restore(target), .backUpRelay, .restoreRelay]
            }
        return chance(20) ? nodes.randomElement(using: &random) : nil
    }

    /// A forged command whose number would block the lane permanently.
    private mutating func forgery() -> CommandWorld.Step? {
        let target = Int.random(in: 0..<2, using: &random)
        let lane = CommandLane(sender: world.senders[0].id, target: world.targets[target].id, appID: "player")
        var ids = world.ids
        let command = CommandDescriptor(
            id: ids.next(),
            lane: lane,
            number: .max,
            created: world.now,
            expires: .max,
            digest: Digest256(hashing: [0]),
            size: 1
        )
        return .forge(target: target, command)
    }

    /// A forged outcome by the relay.
    private mutating func lie() -> CommandWorld.Step? {
        let sender = Int.random(in: world.senders.indices, using: &random)
        let open = world.journals[world.senders[sender].journal].open
        guard let id = open.randomElement(using: &random) else { return nil }
        let final =
            chance(50)
            ? CommandFinal(attestedByRelay: .succeeded) : CommandFinal(outcome: .cancelled, receipt: [1, 2, 3], reply: nil)
        return .lie(sender: sender, id, final)
    }

    /// A pending action or frame.
    private mutating func progress() -> CommandWorld.Step {
        let all = due
        guard let step = all.randomElement(using: &random) else { return .tick }
        guard faults != .none, chance(3) else { return step }
        switch step {
        case .deliverUp(let link, let pipe, _): return .deliverUp(link: link, pipe: pipe, twice: true)
        case .deliverDown(let link, let pipe, _): return .deliverDown(link: link, pipe: pipe, twice: true)
        default: return step
        }
    }

    private var due: [CommandWorld.Step] {
        var steps: [CommandWorld.Step] = []
        if !world.relay.queue.isEmpty { steps += [.workAtRelay, .workAtRelay] }
        for node in world.links.indices {
            steps += world.due(node)
            for (index, pipe) in world.links[node].up.enumerated() where !pipe.frames.isEmpty {
                steps.append(.deliverUp(link: node, pipe: index, twice: false))
            }
            for (index, pipe) in world.links[node].down.enumerated() where !pipe.frames.isEmpty {
                steps.append(.deliverDown(link: node, pipe: index, twice: false))
            }
        }
        for pair in world.direct.keys.sorted() {
            guard let link = world.direct[pair] else { continue }
            steps += link.up.indices.filter { !link.up[$0].frames.isEmpty }.map { .deliverToTarget(pair, pipe: $0) }
            steps += link.down.indices.filter { !link.down[$0].frames.isEmpty }.map { .deliverToSender(pair, pipe: $0) }
        }
        return steps
    }

    // MARK: Draining

    /// Lets all nodes recover and finish: first at once, then after all periods have passed.
    mutating func drain() {
        settle()
        // A full mailbox delays senders for longer.
        if !faults.isEverything { noteUnfinished("at once") }
        for _ in 0..<3 {
            world.apply(.pass(20 * 86_400_000))
            world.apply(.tick)
            settle()
        }
        noteUnfinished("in the end")
        if !world.relay.rows.isEmpty || !world.relay.stored.isEmpty { unfinished.append("the relay keeps rows") }
        for target in world.targets where !target.isRevoked && !target.stored.isEmpty { unfinished.append("a target keeps rows") }
    }

    private(set) var unfinished: [String] = []

    private mutating func noteUnfinished(_ when: String) {
        for journal in world.journals {
            for row in journal.stored.values where !row.isEnded { unfinished.append("\(when): \(row.command.number) is \(row.state)") }
        }
    }

    private mutating func settle() {
        for _ in 0..<3 {
            for node in world.links.indices {
                if world.links[node].isUp { world.apply(.disconnect(node)) }
                world.apply(.losePipes(node))
                world.apply(.connect(node))
            }
            while world.violations.isEmpty {
                if let step = due.first {
                    world.apply(step)
                } else if let target = world.targets.firstIndex(where: { !$0.handlers.isEmpty && !$0.isRevoked }) {
                    world.apply(.answer(target: target, world.targets[target].handlers[0].key, .succeeded))
                } else {
                    break
                }
            }
        }
    }
}
