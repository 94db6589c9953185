// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Which commands of one mailbox may be on their way to the target's connection: the relay's fairness. A large mailbox
/// would otherwise hold up everything else on that connection.
///
/// A command is unanswered from its offer until the target has stored it, or until it has ended. Lanes take turns; within
/// a lane the order is that of the numbers. After every input the owner calls `next` until there is none, and
/// `MailboxCommand.offer` for each.
package struct CommandDelivery: Hashable, Sendable {
    package struct Candidate: Hashable, Sendable {
        package let key: CommandKey
        package let lane: CommandLane
        package let number: UInt64
        package let size: Int

        package init(_ command: CommandDescriptor) {
            self.key = command.key
            self.lane = command.lane
            self.number = command.number
            self.size = command.size
        }
    }

    package static let maximumCommands = 16
    package static let maximumBytes = 1 << 20

    /// Sorted by number. Bounded by the mailbox's limits.
    private var waiting: [CommandLane: [Candidate]] = [:]
    /// The lanes with something waiting, in the order of their turns.
    private var turns: [CommandLane] = []
    private var unanswered: [CommandKey: Int] = [:]
    private var unansweredBytes = 0

    /// The target has connected.
    /// - Parameter mailbox: All its commands without a committed result, in the order in which they were stored.
    package init(mailbox: [CommandDescriptor]) {
        for command in mailbox { enqueue(Candidate(command)) }
    }

    /// A command was stored.
    package mutating func add(_ command: CommandDescriptor) {
        enqueue(Candidate(command))
    }

    /// A command is about to be stored. If nothing waits and there is room, it can be offered as soon as it is: then it counts as
    /// unanswered from now on.
    package mutating func begin(_ command: CommandDescriptor) -> Bool {
        let candidate = Candidate(command)
        guard turns.isEmpty, unanswered[candidate.key] == nil, hasRoom(for: candidate) else { return false }
        unanswered[candidate.key] = candidate.size
        unansweredBytes += candidate.size
        return true
    }

    /// The command was stored by the target, or has ended; it may have been waiting still.
    package mutating func answered(_ command: CommandDescriptor) {
        if let size = unanswered.removeValue(forKey: command.key) {
            unansweredBytes -= size
        } else if var candidates = waiting[command.lane] {
            candidates.removeAll { $0.key == command.key }
            set(candidates, in: command.lane)
        }
    }

    /// The one to be offered now, if there is room. One at a time: what offering it brings about may ask for the next, and
    /// must not overtake any.
    package mutating func next() -> CommandKey? {
        guard let lane = turns.first, var candidates = waiting[lane], let candidate = candidates.first, hasRoom(for: candidate) else {
            return nil
        }
        turns.removeFirst()
        candidates.removeFirst()
        if !candidates.isEmpty { turns.append(lane) }
        waiting[lane] = candidates.isEmpty ? nil : candidates
        unanswered[candidate.key] = candidate.size
        unansweredBytes += candidate.size
        return candidate.key
    }

    /// One is always allowed, however large.
    private func hasRoom(for candidate: Candidate) -> Bool {
        unanswered.isEmpty || (unanswered.count < Self.maximumCommands && candidate.size <= Self.maximumBytes - unansweredBytes)
    }

    private mutating func enqueue(_ candidate: Candidate) {
        guard unanswered[candidate.key] == nil else { return }
        var candidates = waiting[candidate.lane] ?? []
        guard !candidates.contains(where: { $0.key == candidate.key }) else { return }
        // Nearly always the last.
        let index = candidates.lastIndex { $0.number <= candidate.number }.map { $0 + 1 } ?? 0
        candidates.insert(candidate, at: index)
        if candidates.count == 1 { turns.append(candidate.lane) }
        waiting[candidate.lane] = candidates
    }

    private mutating func set(_ candidates: [Candidate], in lane: CommandLane) {
        waiting[lane] = candidates.isEmpty ? nil : candidates
        if candidates.isEmpty { turns.removeAll { $0 == lane } }
    }
}
