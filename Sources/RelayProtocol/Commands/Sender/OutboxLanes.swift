// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Decides which commands of one endpoint are in flight to the relay: one per lane, in the order of the numbers. The next one is sent when
/// the relay has answered. So no command overtakes a refused one, which may be signed again or tried later. If a later number arrived
/// first, the target would take the late command for one that it has already settled and deleted.
///
/// The owner calls `SentCommand.connected` for each returned command.
package struct OutboxLanes: Hashable, Sendable {
    private struct Lane: Hashable {
        var current: CommandID?
        /// Sorted by number.
        var waiting: [CommandDescriptor] = []
    }

    private var lanes: [CommandLane: Lane] = [:]

    /// The relay sent `welcome`.
    /// - Parameter commands: All commands that have not ended.
    package init(commands: [CommandDescriptor]) {
        for command in commands.sorted(by: { $0.number < $1.number }) {
            lanes[command.lane, default: Lane()].waiting.append(command)
        }
    }

    /// The commands to send now.
    package mutating func start() -> [CommandID] {
        let lanes = lanes.keys
        return lanes.compactMap { next(in: $0) }.sorted()
    }

    /// Adds a command. The result is whether to send it at once.
    package mutating func add(_ command: CommandDescriptor) -> Bool {
        let waiting = lanes[command.lane]?.waiting ?? []
        let index = waiting.lastIndex { $0.number < command.number }.map { $0 + 1 } ?? 0
        lanes[command.lane, default: Lane()].waiting.insert(command, at: index)
        return next(in: command.lane) == command.id
    }

    /// Whether the command waits in its lane, or for the relay's answer.
    package func holds(_ command: CommandDescriptor) -> Bool {
        isCurrent(command) || lanes[command.lane]?.waiting.contains { $0.id == command.id } ?? false
    }

    /// Whether the lane waits for the relay's answer to this command.
    package func isCurrent(_ command: CommandDescriptor) -> Bool { lanes[command.lane]?.current == command.id }

    /// The relay has given its final answer to the command, or the command has ended. The result is the command to send now, if any.
    package mutating func answered(_ command: CommandDescriptor) -> CommandID? {
        if isCurrent(command) {
            lanes[command.lane]?.current = nil
        } else {
            lanes[command.lane]?.waiting.removeAll { $0.id == command.id }
        }
        return next(in: command.lane)
    }

    private mutating func next(in lane: CommandLane) -> CommandID? {
        guard let state = lanes[lane], state.current == nil else { return nil }
        guard let next = state.waiting.first else {
            lanes[lane] = nil
            return nil
        }
        lanes[lane]?.waiting.removeFirst()
        lanes[lane]?.current = next.id
        return next.id
    }
}
