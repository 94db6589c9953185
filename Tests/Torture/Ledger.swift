// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// All reports about each command, and whether they fulfil the guarantees.
struct Ledger: Sendable {
    struct Entry: Sendable {
        let issue: Errand
        var command: String?
        var expires: Int64?
        var isAccepted = false
        /// The times at which a handler started.
        var starts: [Int64] = []
        /// The answers that handlers were about to give.
        var answers: [Ending] = []
        /// All outcomes that the sender learned, over all its starts.
        var learned: Set<Learned> = []
        /// The parties whose stored state went back after the command was stored.
        var wentBack: Set<Party> = []
        /// The sender's restored state does not have the command.
        var isLost = false
        /// The outcomes that the sender learned before its state went back.
        var earlier: Set<Learned> = []

        /// Whether the sender's restored state has the command.
        var isReopened: Bool { wentBack.contains(.sender(issue.sender)) && !isLost }
        /// A target whose state goes back can run a command again.
        var canRunAgain: Bool { wentBack.contains(.target(issue.target)) }
    }

    struct Lane: Hashable, Comparable {
        var sender: Int
        var target: Int

        static func < (left: Self, right: Self) -> Bool { (left.sender, left.target) < (right.sender, right.target) }
    }

    private(set) var entries: [Entry]
    /// The commands of each lane, in the order in which handlers started.
    private(set) var order: [Lane: [Int]] = [:]
    private(set) var kills: [Party: Int] = [:]
    private(set) var naps: [Party: Int] = [:]
    private(set) var restores: [Party: Int] = [:]
    private(set) var pushes = 0
    private var issues: [String: Int] = [:]
    /// Reports that fit no command.
    private(set) var anomalies: [String] = []

    init(_ issues: [Errand]) { entries = issues.map { Entry(issue: $0) } }

    func issue(of command: String) -> Int? { issues[command] }

    /// How often something happened to the nodes or their database.
    private(set) var mishaps: [String: Int] = [:]
    /// The longest time until something went on, by cause, in milliseconds.
    private(set) var recoveries: [String: Int64] = [:]

    mutating func happened(_ mishap: String) { mishaps[mishap, default: 0] += 1 }

    mutating func recovered(from cause: String, after time: Duration) {
        recoveries[cause] = max(recoveries[cause] ?? 0, Int64(time / .milliseconds(1)))
    }

    mutating func died(_ party: Party) { kills[party, default: 0] += 1 }

    /// The stored state of a party went back.
    /// - Parameter ordered: The commands that senders were ordered to submit and have not reported.
    mutating func wentBack(_ party: Party, ordered: Set<Int>) {
        restores[party, default: 0] += 1
        for index in entries.indices where entries[index].command != nil || ordered.contains(index) {
            let issue = entries[index].issue
            switch party {
            case .sender(let sender) where sender != issue.sender: continue
            case .target(let target) where target != issue.target: continue
            case .relayd, .sender, .target: entries[index].wentBack.insert(party)
            }
        }
    }

    /// A restored sender does not have the command.
    mutating func lost(_ issue: Int) { entries[issue].isLost = true }

    /// A restored sender has a command whose end it had learned, and reports an end again.
    mutating func reopened(_ issue: Int) {
        entries[issue].earlier.formUnion(entries[issue].learned)
        entries[issue].learned = []
    }

    /// The stored commands of a sender that it does not have after its state went back.
    func missing(from commands: Set<String>, sender: Int) -> [Int] {
        entries.filter { entry in
            guard entry.issue.sender == sender, !entry.isLost, let command = entry.command else { return false }
            return !commands.contains(command)
        }.map(\.issue.number)
    }

    func hasEnded(_ issue: Int) -> Bool { !entries[issue].learned.isEmpty }

    mutating func fellAsleep(_ party: Party) { naps[party, default: 0] += 1 }

    mutating func pushed() { pushes += 1 }

    /// How many of the latest commands their targets may have got without the relay.
    var direct = 0

    mutating func recordAnomaly(_ text: String) { anomalies.append(text) }

    mutating func submitted(_ issue: Int, as command: String, expires: Int64) {
        guard entries.indices.contains(issue) else { return recordAnomaly("a command of nobody was submitted") }
        if let other = entries[issue].command, other != command { recordAnomaly("\(issue) was stored twice") }
        entries[issue].command = command
        entries[issue].expires = expires
        issues[command] = issue
    }

    mutating func accepted(_ command: String) {
        guard let issue = issues[command] else { return recordAnomaly("a command of nobody was accepted") }
        entries[issue].isAccepted = true
    }

    mutating func started(_ issue: Int, at time: Int64) {
        guard entries.indices.contains(issue) else { return recordAnomaly("a command of nobody was handled") }
        entries[issue].starts.append(time)
        let of = entries[issue].issue
        order[Lane(sender: of.sender, target: of.target), default: []].append(issue)
    }

    mutating func handled(_ issue: Int, _ answer: Ending) {
        guard entries.indices.contains(issue) else { return recordAnomaly("a command of nobody was handled") }
        entries[issue].answers.append(answer)
    }

    /// - Returns: Whether this is the first report of its end.
    mutating func ended(_ command: String, _ learned: Learned) -> Bool {
        guard let issue = issues[command] else {
            recordAnomaly("a command of nobody has ended")
            return false
        }
        let isFirst = entries[issue].learned.isEmpty
        entries[issue].learned.insert(learned)
        return isFirst
    }

    /// When the last of a target's commands without an outcome expires; `nil` if there is none.
    func lastExpiry(at target: Int) -> Int64? {
        entries.lazy.filter { $0.issue.target == target && $0.learned.isEmpty }.compactMap(\.expires).max()
    }

    // MARK: Guarantees

    /// How long after its expiry, by the same clock, a handler may start: the time is read after the decision, on a busy machine.
    static let tolerance: Int64 = 1_000

    var violations: [String] {
        var violations = anomalies
        for entry in entries { violations += self.violations(of: entry).map { "\(entry.issue.number): \($0)" } }
        for (lane, numbers) in order.sorted(by: { $0.key < $1.key }) {
            // A command that was signed again, or runs again, follows later ones.
            for (first, second) in zip(numbers, numbers.dropFirst()) where first > second && entries[second].wentBack.isEmpty {
                violations.append("\(second) was handled behind \(first), from sender \(lane.sender) at target \(lane.target)")
            }
        }
        return violations
    }

    /// The entries with violations.
    var broken: [Entry] { entries.filter { !violations(of: $0).isEmpty } }

    private func violations(of entry: Entry) -> [String] {
        var found: [String] = []
        func demand(_ holds: Bool, _ text: @autoclosure () -> String) { if !holds { found.append(text()) } }

        demand(entry.starts.count <= 1 || entry.canRunAgain, "handled \(entry.starts.count) times")
        demand(entry.learned.count <= 1, "has \(entry.learned.count) outcomes: \(entry.learned)")
        if let start = entry.starts.first, let expires = entry.expires {
            demand(start <= expires + Self.tolerance, "handled \(start - expires) ms after its end")
        }
        guard entry.command != nil else {
            // A killed sender can have stored it without a report, and lost it.
            demand(entry.starts.isEmpty || entry.isLost, "handled, and never stored")
            return found
        }
        for learned in entry.earlier where learned.ending.isHandlers {
            demand(entry.answers.contains(learned.ending), "\(learned.ending), but the handler answered \(entry.answers)")
        }
        if entry.isLost, entry.learned.isEmpty { return found }
        guard let learned = entry.learned.first else { return found + ["no outcome"] }
        let ending = learned.ending

        // Its number had passed each time that it was signed: the target says so, and has not run it.
        let isPassed = ending == .failed && !entry.wentBack.isEmpty && entry.starts.isEmpty
        demand(!ending.isHandlers || isPassed || entry.answers.contains(ending), "\(ending), but the handler answered \(entry.answers)")
        demand(!ending.isHandlers || learned.byTarget, "\(ending), which the relay cannot know")
        // Where the sender had the end and lost it, or the target does not know that it ran. See *State that goes back* of the protocol.
        let mayBeMistaken = entry.isReopened && !entry.earlier.isEmpty || entry.canRunAgain
        demand(!ending.hasNotRun || entry.starts.isEmpty || mayBeMistaken, "\(ending), but it was handled")
        // After the handler's answer and before it is stored, only a kill or a suspension can intervene.
        let isInterrupted = ending == .interrupted || ending == .timedOut
        // A relay that has gone back does not know either what became of later commands that it does not have.
        let isUnknown =
            ending == .forgotten && !entry.wentBack.isEmpty
            || ending == .targetLost && (!entry.wentBack.isEmpty || restores[.relayd(0)] != nil)
            // If the relay ends a command by its own word while it is offered directly, its lane may have gone on.
            || ending == .forgotten && direct > 0 && (entry.issue.cancelAfter != nil || entry.issue.life < 60_000)
        demand(
            entry.answers.isEmpty || entry.answers.contains(ending) || isInterrupted || isUnknown || mayBeMistaken,
            "\(ending), but it was answered"
        )
        let target = Party.target(entry.issue.target)
        if ending == .interrupted { demand(kills[target] != nil || naps[target] != nil, "interrupted at a target that always ran") }
        if ending == .succeeded, entry.issue.isMessage {
            demand(learned.answer == entry.issue.number, "answered with \(learned.answer.map { "\($0)" } ?? "nothing")")
        }
        switch ending {
        case .cancelled, .withdrawn: demand(entry.issue.cancelAfter != nil, "\(ending), and nobody wanted it")
        case .expired: demand(entry.issue.life < 60_000, "expired in the middle of its life")
        case .refused:
            demand(!entry.isAccepted || entry.isReopened, "accepted and then refused: \(learned.reason ?? "")")
            demand(entry.issue.life < 60_000 && learned.reason?.hasPrefix("expired") == true, "refused: \(learned.reason ?? "")")
        case .forgotten, .targetLost: demand(isUnknown, "its outcome is not known")
        // A handler is suspended with its target.
        case .timedOut: demand(naps[target] != nil, "the handler did not answer")
        case .succeeded, .declined, .unsupported, .failed, .interrupted: break
        }
        return found
    }

    /// The largest delay of a handler's start after its command's expiry, in milliseconds.
    var latest: Int64 {
        entries.compactMap { entry in
            guard let start = entry.starts.first, let expires = entry.expires else { return nil }
            return start - expires
        }.max() ?? 0
    }

    var endings: [Ending: Int] { entries.compactMap { $0.learned.first?.ending }.reduce(into: [:]) { $0[$1, default: 0] += 1 } }
}
