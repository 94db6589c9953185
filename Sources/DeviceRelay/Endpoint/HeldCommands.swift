// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Commands from unknown senders that arrived before the end of the enumeration: a voucher for the sender may still arrive. All further
/// commands of such a sender wait too, to keep their order.
struct HeldCommands {
    /// A relay that respects its own limit (`CommandDelivery.maximumCommands`) never has more unsettled offers.
    static let maximumCount = 16

    private var commands: [(key: CommandKey, message: RelayMessage.Command)] = []

    /// Whether a sender's command has to wait.
    func holds(_ sender: EndpointID, isKnown: Bool, isEnumerated: Bool) -> Bool {
        !isEnumerated && (!isKnown || commands.contains { $0.key.sender == sender })
    }

    func contains(_ key: CommandKey) -> Bool { commands.contains { $0.key == key } }

    /// - Returns: False if there is no room.
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
