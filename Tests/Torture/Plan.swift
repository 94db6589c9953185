// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting

/// A process that can be killed.
enum Party: Hashable, Sendable, CustomStringConvertible {
    /// A node of the relay.
    case relayd(Int)
    case sender(Int)
    case target(Int)

    var isRelayd: Bool { if case .relayd = self { true } else { false } }

    var description: String {
        switch self {
        case .relayd(0): "relayd"
        case .relayd(let number): "relayd \(number)"
        case .sender(let number): "sender \(number)"
        case .target(let number): "target \(number)"
        }
    }
}

/// The events of a run, all derived from the seed.
struct Plan: Sendable {
    struct Strike: Sendable {
        /// The number of submissions and ends, together, after which the kill happens…
        var progress: Int
        /// …and a further delay in milliseconds, so that it does not coincide with a report.
        var delay: Int
        /// The party to kill; if it is down, the next one.
        var party: Party
        /// Milliseconds until it is started again.
        var down: Int
        /// Whether the others reconnect at once when it is back, as after a network change. Otherwise they follow their back-off.
        var isNoticed: Bool
        /// Whether its stored state goes back to its last copy before it is started again.
        var goesBack = false
    }

    /// A copy of a party's stored state, made while it runs.
    struct Copy: Sendable {
        /// As for a strike.
        var progress: Int
        var party: Party
    }

    /// A target falls asleep until a push wakes it.
    struct Nap: Sendable {
        /// As for a strike.
        var progress: Int
        /// The target; if it is not running, the next one that is.
        var target: Int
        /// Whether its process is suspended with its connection, instead of ending.
        var isFrozen: Bool
    }

    /// The local network of all devices is gone for a while.
    struct Cut: Sendable {
        /// As for a strike.
        var progress: Int
        /// Milliseconds until it is back.
        var down: Int
    }

    /// What happens to a node of several, or to their database.
    struct Mishap: Sendable {
        enum Kind: Sendable {
            /// The node stands still for so many milliseconds, longer than it has its leases.
            case frozen(node: Int, Int)
            /// What goes next between the node and the database is lost.
            case cut(node: Int, answer: Bool)
            /// The primary is killed, and the standby takes its place.
            case promoted
            /// The node is stopped, and started as this version.
            case upgraded(node: Int)
        }

        /// As for a strike.
        var progress: Int
        var kind: Kind
    }

    let seed: UInt64
    let nodes: Int
    let senders: Int
    let targets: Int
    let issues: [Errand]
    let strikes: [Strike]
    let naps: [Nap]
    let copies: [Copy]
    let cuts: [Cut]
    let mishaps: [Mishap]
    /// Whether the devices have a local network, too.
    let hasPaths: Bool

    init(
        seed: UInt64,
        commands: Int,
        senders: Int,
        targets: Int,
        kills: Int,
        naps: Int = 0,
        restores: Int = 0,
        cuts: Int? = nil,
        nodes: Int = 1,
        mishaps: Int? = nil,
        isUpgraded: Bool = false
    ) {
        (self.seed, self.senders, self.targets, hasPaths, self.nodes) = (seed, senders, targets, cuts != nil, nodes)
        var random = SeededGenerator(seed: seed)
        issues = (0..<commands).map { number in
            Errand(
                number: number,
                sender: Int.random(in: 0..<senders, using: &random),
                target: Int.random(in: 0..<targets, using: &random),
                isMessage: random.oneIn(2),
                life: random.oneIn(8) ? Int.random(in: 1_000...15_000, using: &random) : 3_600_000,
                cancelAfter: random.oneIn(12) ? Int.random(in: 0...2_000, using: &random) : nil
            )
        }
        var strikes: [Strike] = []
        for number in 0..<kills {
            // The kinds of party alternate.
            let party: Party =
                switch number % 8 {
                case 0, 3, 6: .relayd(nodes == 1 ? 0 : Int.random(in: 0..<nodes, using: &random))
                case 1, 4, 7: .target(Int.random(in: 0..<targets, using: &random))
                default: .sender(Int.random(in: 0..<senders, using: &random))
                }
            strikes.append(
                Strike(
                    progress: Int.random(in: commands / 50...max(commands / 50, commands * 19 / 10), using: &random),
                    delay: Int.random(in: 0...40, using: &random),
                    party: party,
                    // Some outages are longer than the short command lives.
                    down: random.oneIn(6) ? Int.random(in: 2_000...6_000, using: &random) : Int.random(in: 0...800, using: &random),
                    isNoticed: !random.oneIn(5)
                )
            )
        }
        let planned = (0..<naps).map { _ in
            Nap(
                progress: Int.random(in: commands / 50...max(commands / 50, commands * 19 / 10), using: &random),
                target: Int.random(in: 0..<targets, using: &random),
                isFrozen: random.oneIn(3)
            )
        }
        self.naps = planned.sorted { $0.progress < $1.progress }
        var copies: [Copy] = []
        for number in 0..<restores {
            let party: Party =
                switch number % 3 {
                case 0: .relayd(0)
                case 1: .sender(Int.random(in: 0..<senders, using: &random))
                default: .target(Int.random(in: 0..<targets, using: &random))
                }
            let times = (0..<2).map { _ in Int.random(in: 1...max(2, commands * 19 / 10), using: &random) }.sorted()
            copies.append(Copy(progress: times[0], party: party))
            strikes.append(
                Strike(
                    progress: times[1],
                    delay: Int.random(in: 0...40, using: &random),
                    party: party,
                    down: Int.random(in: 0...800, using: &random),
                    isNoticed: !random.oneIn(5),
                    goesBack: true
                )
            )
        }
        self.cuts = (0..<(cuts ?? 0)).map { _ in
            Cut(progress: Int.random(in: 1...max(2, commands * 19 / 10), using: &random), down: Int.random(in: 200...4_000, using: &random))
        }.sorted { $0.progress < $1.progress }
        if hasPaths {
            // While the relay is away for long, commands go directly.
            for index in strikes.indices where strikes[index].party == .relayd(0) && random.oneIn(2) {
                strikes[index].down = Int.random(in: 3_000...8_000, using: &random)
            }
        }
        let mishaps = nodes == 1 ? [] : Self.mishaps(mishaps ?? kills / 2, commands: commands, nodes: nodes, using: &random)
        let upgrades = (0..<(isUpgraded ? nodes : 0)).map { node in
            Mishap(progress: max(1, commands * 19 / 10 * (node + 1) / (nodes + 1)), kind: .upgraded(node: node))
        }
        self.mishaps = (mishaps + upgrades).sorted { $0.progress < $1.progress }
        self.copies = copies.sorted { $0.progress < $1.progress }
        self.strikes = strikes.sorted { $0.progress < $1.progress }
    }

    /// Of each six of them, two are frozen nodes, three are cuts, and one is a promotion.
    private static func mishaps(_ most: Int, commands: Int, nodes: Int, using random: inout some RandomNumberGenerator) -> [Mishap] {
        let count = (most + 5) / 6
        let end = max(2, commands * 19 / 10)
        func progress() -> Int { Int.random(in: 1...end, using: &random) }
        func node() -> Int { Int.random(in: 0..<nodes, using: &random) }
        var mishaps: [Mishap] = []
        for number in 0..<count {
            // One after the other: a standby that is being made cannot be promoted.
            mishaps.append(Mishap(progress: end * (2 * number + 1) / (2 * count), kind: .promoted))
            for _ in 0..<2 {
                let time = Int.random(in: 11_000...16_000, using: &random)
                mishaps.append(Mishap(progress: progress(), kind: .frozen(node: node(), time)))
            }
            for answer in [true, true, false] { mishaps.append(Mishap(progress: progress(), kind: .cut(node: node(), answer: answer))) }
        }
        return mishaps.sorted { $0.progress < $1.progress }
    }

    var parties: [Party] {
        (0..<nodes).map { .relayd($0) } + (0..<senders).map { .sender($0) } + (0..<targets).map { .target($0) }
    }
}
