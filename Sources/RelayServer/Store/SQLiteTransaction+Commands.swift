// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

/// Rows in SQLite: the commands.
extension SQLiteTransaction {
    private static let descriptorColumns = "sender, id, target, app, number, created, expires, digest, size"

    private func descriptor(_ row: Row) throws -> CommandDescriptor {
        CommandDescriptor(
            id: try CommandID(column: row[1]),
            lane: CommandLane(sender: try row.endpoint(at: 0), target: try row.endpoint(at: 2), appID: row[3]),
            number: NumberColumn.decode(row[4]),
            created: row[5],
            expires: row[6],
            digest: try row.digest(at: 7),
            size: row[8]
        )
    }

    func command(_ key: StoredCommandKey) throws -> MailboxCommand? {
        try Row.fetchOne(statement(Self.selectCommand), arguments: .bound(Self.arguments(key))).map { row in
            MailboxCommand(restoring: try descriptor(row), state: try state(row))
        }
    }

    private static let ofKey = "account = ? AND sender = ? AND id = ?"

    private static func arguments(_ key: StoredCommandKey) -> [(any DatabaseValueConvertible)?] {
        [key.account.rawValue, key.command.sender.column, key.command.id.column]
    }

    private static let selectCommand = """
        SELECT \(descriptorColumns), state, cancel_requested, ended, outcome, receipt, reply FROM commands WHERE \(ofKey)
        """

    /// A state as it is stored.
    private enum StateCode: Int {
        case stored = 0
        case offered = 1
        case final = 2

        init(_ state: MailboxCommand.State) {
            switch state {
            case .stored: self = .stored
            case .offered: self = .offered
            case .final: self = .final
            }
        }
    }

    private func state(_ row: Row) throws -> MailboxCommand.State {
        switch StateCode(rawValue: row[9]) {
        case .stored: return .stored
        case .offered: return .offered(received: false, cancelRequested: row[10])
        case .final:
            let outcome = try JSONDecoder().decode(CommandOutcome.self, from: Data((row[12] as String).utf8))
            guard let receipt: Data = row[13] else { return .final(CommandFinal(attestedByRelay: outcome), since: row[11]) }
            let reply: Data? = row[14]
            return .final(CommandFinal(outcome: outcome, receipt: [UInt8](receipt), reply: reply.map { [UInt8]($0) }), since: row[11])
        case nil: throw ColumnError()
        }
    }

    func add(_ command: MailboxCommand, urgency: WakePayload.Urgency, blob: [UInt8], account: AccountID) throws -> Bool {
        let descriptor = command.command
        try run(
            Self.insertCommand,
            [
                account.rawValue, descriptor.lane.sender.column, descriptor.id.column, descriptor.lane.target.column, descriptor.lane.appID,
                NumberColumn.encode(descriptor.number), descriptor.created, descriptor.expires, descriptor.digest.column,
                descriptor.size, urgency == .urgent, StateCode(command.state).rawValue, command.nextDeadline, Data(blob),
            ]
        )
        return database.changesCount == 1
    }

    private static let insertCommand = """
        INSERT INTO commands
            (account, \(descriptorColumns), urgent, state, cancel_requested, deadline, blob)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)
        ON CONFLICT (account, sender, id) DO NOTHING
        """

    func update(_ command: MailboxCommand, account: AccountID) throws {
        let (sender, id) = (command.command.lane.sender.column, command.command.id.column)
        if case .final(let final, let since) = command.state {
            let outcome = final.outcome == .succeeded ? try Self.succeeded.get() : try Self.json(final.outcome)
            let (receipt, reply) = (final.receipt.map { Data($0) }, final.reply.map { Data($0) })
            try run(Self.updateFinal, [since, outcome, command.nextDeadline, receipt, reply, account.rawValue, sender, id])
        } else {
            // The row keeps its length, so that SQLite does not rewrite a large blob.
            let isCancelRequested = if case .offered(_, cancelRequested: true) = command.state { true } else { false }
            let state = StateCode(command.state).rawValue
            try run(Self.updateState, [state, isCancelRequested, command.nextDeadline, account.rawValue, sender, id])
        }
        guard database.changesCount == 1 else { throw ColumnError() }
    }

    /// Cached, because nearly all commands end with it.
    private static let succeeded = Result { try json(.succeeded) }

    private static func json(_ outcome: CommandOutcome) throws -> String { try ValueSetEncoder().encode(outcome).json() }

    private static let updateFinal = """
        UPDATE commands SET state = 2, ended = ?, outcome = ?, deadline = ?, receipt = ?, reply = ?, blob = NULL WHERE \(ofKey)
        """
    private static let updateState = "UPDATE commands SET state = ?, cancel_requested = ?, deadline = ? WHERE \(ofKey)"

    /// SQLite has no cache of its own: writes nothing.
    func note(_ command: MailboxCommand, account: AccountID) {}

    func removeCommand(_ key: StoredCommandKey) throws { try run("DELETE FROM commands WHERE \(Self.ofKey)", Self.arguments(key)) }

    func blob(of key: StoredCommandKey) throws -> [UInt8]? {
        try Data.fetchOne(
            statement("SELECT blob FROM commands WHERE \(Self.ofKey) AND blob IS NOT NULL"),
            arguments: .bound(Self.arguments(key))
        ).map { [UInt8]($0) }
    }

    func mailbox(of target: EndpointID, account: AccountID) throws -> [CommandDescriptor] {
        try Row.fetchAll(
            statement(
                "SELECT \(Self.descriptorColumns) FROM commands WHERE account = ? AND target = ? AND state < 2 ORDER BY sequence"
            ),
            arguments: .bound(account.rawValue, target.column)
        ).map { try descriptor($0) }
    }

    func mailboxShares(of target: EndpointID, account: AccountID) throws -> [EndpointID: MailboxUse] {
        let rows = try Row.fetchCursor(
            statement("SELECT sender, count(*), total(size) FROM commands WHERE account = ? AND target = ? AND state < 2 GROUP BY sender"),
            arguments: .bound(account.rawValue, target.column)
        )
        var shares: [EndpointID: MailboxUse] = [:]
        while let row = try rows.next() { shares[try row.endpoint(at: 0)] = Self.use(row, 1) }
        return shares
    }

    func outcomesUse(of sender: EndpointID, account: AccountID) throws -> MailboxUse {
        try Row.fetchOne(
            statement(
                """
                SELECT count(*), total(coalesce(length(receipt), 0) + coalesce(length(reply), 0))
                FROM commands WHERE account = ? AND sender = ? AND state = 2
                """
            ),
            arguments: .bound(account.rawValue, sender.column)
        ).map { Self.use($0, 0) } ?? MailboxUse()
    }

    /// Reads two columns, a number and a sum of bytes.
    private static func use(_ row: Row, _ column: Int) -> MailboxUse {
        MailboxUse(commands: row[column], bytes: Int(clamping: Int64(row[column + 1] as Double)))
    }

    func use(of lane: CommandLane, account: AccountID) throws -> LaneUse {
        let found = try Row.fetchOne(
            statement("SELECT count(*), max(number) FROM commands WHERE account = ? AND sender = ? AND target = ? AND app = ?"),
            arguments: .bound(account.rawValue, lane.sender.column, lane.target.column, lane.appID)
        )
        guard let found, let highest: Int64 = found[1] else { return LaneUse() }
        return LaneUse(commands: found[0], highest: NumberColumn.decode(highest))
    }

    func commands(from sender: EndpointID, isFinal: Bool, account: AccountID) throws -> [CommandKey] {
        let condition = isFinal ? "state = 2" : "state < 2"
        return try Data.fetchAll(
            statement("SELECT id FROM commands WHERE account = ? AND sender = ? AND \(condition) ORDER BY sequence"),
            arguments: .bound(account.rawValue, sender.column)
        ).map { CommandKey(sender: sender, id: try CommandID(column: $0)) }
    }

    func dueCommands(at time: Int64, limit: Int) throws -> [StoredCommandKey] {
        try Row.fetchAll(
            statement("SELECT account, sender, id FROM commands WHERE deadline <= ? ORDER BY deadline, sequence LIMIT ?"),
            arguments: .bound(time, limit)
        ).map {
            let key = CommandKey(sender: try $0.endpoint(at: 1), id: try CommandID(column: $0[2]))
            return StoredCommandKey(account: AccountID($0[0]), command: key)
        }
    }
}
