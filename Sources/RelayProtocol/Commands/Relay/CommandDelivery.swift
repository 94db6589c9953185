// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Decides which commands of one mailbox are in flight on the target's connection. Without this bound, a large mailbox would delay
/// everything else on that connection.
///
/// A command is unanswered from its offer until the target has stored it, or until it has ended. The lanes are served in round-robin order;
/// within a lane the order is that of the numbers. After every input the owner calls `next` until it returns `nil`, and calls
/// `MailboxCommand.offer` for each command.
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

    /// Sorted by number. The mailbox's limits bound the size.
    private var waiting: [CommandLane: [Candidate]] = [:]
    /// The lanes with waiting commands, in round-robin order.
    private var readyLanes: [CommandLane] = []
    private var unanswered: [CommandKey: Int] = [:]
    private var unansweredBytes = 0

    /// Whether nothing waits for an offer or an answer.
    package var isEmpty: Bool { unanswered.isEmpty && waiting.isEmpty }

    /// The target has connected.
    /// - Parameter mailbox: All its commands without a committed result, in the order in which they were stored.
    package init(mailbox: [CommandDescriptor]) {
        for command in mailbox { enqueue(Candidate(command)) }
    }

    /// A command was stored.
    package mutating func add(_ command: CommandDescriptor) {
        enqueue(Candidate(command))
    }

    /// A command is about to be stored. The result is true if nothing waits and there is room. Then the command can be offered as soon as
    /// it is stored, and it counts as unanswered from now on.
    package mutating func begin(_ command: CommandDescriptor) -> Bool {
        let candidate = Candidate(command)
        guard readyLanes.isEmpty, unanswered[candidate.key] == nil, hasRoom(for: candidate) else { return false }
        unanswered[candidate.key] = candidate.size
        unansweredBytes += candidate.size
        return true
    }

    /// The target has stored the command, or the command has ended. It may still wait for its offer.
    package mutating func answered(_ command: CommandDescriptor) {
        if let size = unanswered.removeValue(forKey: command.key) {
            unansweredBytes -= size
        } else if var candidates = waiting[command.lane] {
            candidates.removeAll { $0.key == command.key }
            set(candidates, in: command.lane)
        }
    }

    /// The next command to offer, if there is room. It returns one at a time, because an offer may cause another call of `next`, and no
    /// command may overtake another.
    package mutating func next() -> CommandKey? {
        guard let lane = readyLanes.first, var candidates = waiting[lane], let candidate = candidates.first, hasRoom(for: candidate) else {
            return nil
        }
        readyLanes.removeFirst()
        candidates.removeFirst()
        if !candidates.isEmpty { readyLanes.append(lane) }
        waiting[lane] = candidates.isEmpty ? nil : candidates
        unanswered[candidate.key] = candidate.size
        unansweredBytes += candidate.size
        return candidate.key
    }

    /// One command is always allowed, however large it is.
    private func hasRoom(for candidate: Candidate) -> Bool {
        unanswered.isEmpty || (unanswered.count < Self.maximumCommands && candidate.size <= Self.maximumBytes - unansweredBytes)
    }

    private mutating func enqueue(_ candidate: Candidate) {
        guard unanswered[candidate.key] == nil else { return }
        var candidates = waiting[candidate.lane] ?? []
        guard !candidates.contains(where: { $0.key == candidate.key }) else { return }
        // A new command nearly always goes to the end.
        let index = candidates.lastIndex { $0.number <= candidate.number }.map { $0 + 1 } ?? 0
        candidates.insert(candidate, at: index)
        if candidates.count == 1 { readyLanes.append(candidate.lane) }
        waiting[candidate.lane] = candidates
    }

    private mutating func set(_ candidates: [Candidate], in lane: CommandLane) {
        waiting[lane] = candidates.isEmpty ? nil : candidates
        if candidates.isEmpty { readyLanes.removeAll { $0 == lane } }
    }
}
