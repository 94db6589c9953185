// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting

/// A process that can be killed.
enum Party: Hashable, Sendable, CustomStringConvertible {
    case relayd
    case sender(Int)
    case target(Int)

    var description: String {
        switch self {
        case .relayd: "relayd"
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

    let seed: UInt64
    let senders: Int
    let targets: Int
    let issues: [Errand]
    let strikes: [Strike]
    let naps: [Nap]
    let copies: [Copy]
    let cuts: [Cut]
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
        cuts: Int? = nil
    ) {
        (self.seed, self.senders, self.targets, hasPaths) = (seed, senders, targets, cuts != nil)
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
                case 0, 3, 6: .relayd
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
                case 0: .relayd
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
            for index in strikes.indices where strikes[index].party == .relayd && random.oneIn(2) {
                strikes[index].down = Int.random(in: 3_000...8_000, using: &random)
            }
        }
        self.copies = copies.sorted { $0.progress < $1.progress }
        self.strikes = strikes.sorted { $0.progress < $1.progress }
    }

    var parties: [Party] {
        [.relayd] + (0..<senders).map { .sender($0) } + (0..<targets).map { .target($0) }
    }
}
