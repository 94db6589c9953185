// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The commands whose results are settled on one path, and may still be offered on another one. Their results are kept until no path offers
/// them any more, or others need the room.
struct SettledCommands: Hashable {
    static let maximumPerSender = MailboxUse(commands: 1_000, bytes: 16 << 20)
    static let maximumBytes = 64 << 20

    private struct Share: Hashable {
        var use = MailboxUse()
        /// In the order in which they were settled.
        var order: [CommandKey] = []
    }

    private var rows: [CommandKey: CommandTarget.Row] = [:]
    private var shares: [EndpointID: Share] = [:]
    private var bytes = 0

    subscript(key: CommandKey) -> CommandTarget.Row? { rows[key] }

    /// - Returns: The commands to delete in its favour, the oldest first: of the same sender, or of the one that has most.
    mutating func add(_ row: CommandTarget.Row) -> [CommandKey] {
        let key = row.command.key
        guard rows.updateValue(row, forKey: key) == nil else { return [] }
        let size = Self.size(row)
        shares[key.sender, default: Share()].order.append(key)
        shares[key.sender]?.use.commands += 1
        shares[key.sender]?.use.bytes += size
        bytes += size
        var removed: [CommandKey] = []
        while let sender = senderWithoutRoom(key.sender), let oldest = shares[sender]?.order.first {
            remove(oldest)
            removed.append(oldest)
        }
        return removed
    }

    /// - Returns: The commands to delete.
    mutating func removeForgotten(now: Int64) -> [CommandKey] {
        let forgotten = rows.values.filter { now >= $0.command.expires.saturatingAdding(CommandPeriod.grace) }.map(\.command.key)
        for key in forgotten { remove(key) }
        return forgotten.sorted { $0.id < $1.id }
    }

    private func senderWithoutRoom(_ sender: EndpointID) -> EndpointID? {
        let use = shares[sender]?.use ?? MailboxUse()
        if use.commands > Self.maximumPerSender.commands || use.bytes > Self.maximumPerSender.bytes { return sender }
        guard bytes > Self.maximumBytes else { return nil }
        return shares.max { ($0.value.use.bytes, $0.key) < ($1.value.use.bytes, $1.key) }?.key
    }

    private mutating func remove(_ key: CommandKey) {
        guard let row = rows.removeValue(forKey: key) else { return }
        let size = Self.size(row)
        bytes -= size
        shares[key.sender]?.order.removeAll { $0 == key }
        shares[key.sender]?.use.commands -= 1
        shares[key.sender]?.use.bytes -= size
        if shares[key.sender]?.order.isEmpty ?? false { shares[key.sender] = nil }
    }

    private static func size(_ row: CommandTarget.Row) -> Int { row.command.size &+ row.replyBytes }
}
