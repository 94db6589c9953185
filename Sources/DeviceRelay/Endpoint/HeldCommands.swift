// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Commands that came before the relay has told all endpoints there are, from senders that are not known yet: who vouches for them may be told
/// later. All of a sender wait, so that their order stays.
struct HeldCommands {
    /// A relay that keeps to its own bounds has no more under way.
    static let maximumCount = 16

    private var commands: [(key: CommandKey, message: RelayMessage.Command)] = []

    /// Whether a sender's command has to wait.
    func holds(_ sender: EndpointID, isKnown: Bool, isEnumerated: Bool) -> Bool {
        !isEnumerated && (!isKnown || commands.contains { $0.key.sender == sender })
    }

    func contains(_ key: CommandKey) -> Bool { commands.contains { $0.key == key } }

    /// - Returns: Whether there was room.
    mutating func add(_ key: CommandKey, _ message: RelayMessage.Command) -> Bool {
        guard commands.count < Self.maximumCount else { return false }
        commands.append((key, message))
        return true
    }

    mutating func takeAll() -> [RelayMessage.Command] {
        defer { commands = [] }
        return commands.map(\.message)
    }
}
