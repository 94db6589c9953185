// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage

/// Rows of a store in a database: the commands.
extension SQLTransaction {
    static var descriptorColumns: String { "sender, id, target, app, number, created, expires, digest, size" }

    func descriptor(_ row: Database.ResultRow) throws -> CommandDescriptor {
        CommandDescriptor(
            id: try row.commandID(1),
            lane: CommandLane(sender: try row.endpoint(0), target: try row.endpoint(2), appID: try row.text(3)),
            number: try row.number(4),
            created: try row.integer(5),
            expires: try row.integer(6),
            digest: try row.digest(7),
            size: try row.count(8)
        )
    }

    func command(_ key: StoredCommandKey) throws -> MailboxCommand? {
        try database.first(
            """
            SELECT \(Self.descriptorColumns), state, cancel_requested, ended, outcome, receipt, reply FROM commands WHERE \(Self.ofKey)
            """,
            Self.values(key)
        ) { MailboxCommand(restoring: try descriptor($0), state: try state($0)) }
    }

    private static var ofKey: String { "account = ? AND sender = ? AND id = ?" }

    private static func values(_ key: StoredCommandKey) -> [(any SQLParameter)?] {
        [key.account.rawValue, key.command.sender.column, key.command.id.column]
    }

    func state(_ row: Database.ResultRow) throws -> MailboxCommand.State {
        switch StateCode(rawValue: try row.integer(9)) {
        case .stored: return .stored
        case .offered: return .offered(received: false, cancelRequested: try row.flag(10))
        case .final:
            let outcome = try JSONDecoder().decode(CommandOutcome.self, from: Data(try row.text(12).utf8))
            let since = try row.integer(11)
            guard let receipt = try row.optional(13, row.bytes) else {
                return .final(CommandFinal(attestedByRelay: outcome), since: since)
            }
            return .final(CommandFinal(outcome: outcome, receipt: receipt, reply: try row.optional(14, row.bytes)), since: since)
        case nil: throw ColumnError()
        }
    }

    func add(_ command: MailboxCommand, urgency: WakePayload.Urgency, blob: [UInt8], account: AccountID) throws -> Bool {
        let descriptor = command.command
        return try database.changesOne(
            """
            INSERT INTO commands (account, \(Self.descriptorColumns), urgent, state, cancel_requested, deadline, blob)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)
            ON CONFLICT (account, sender, id) DO NOTHING
            """,
            [
                account.rawValue, descriptor.lane.sender.column, descriptor.id.column, descriptor.lane.target.column, descriptor.lane.appID,
                NumberColumn.encode(descriptor.number), descriptor.created, descriptor.expires, descriptor.digest.column,
                descriptor.size, urgency == .urgent, StateCode(command.state).rawValue, command.nextDeadline, Data(blob),
            ]
        )
    }

    func update(_ command: MailboxCommand, account: AccountID) throws {
        let (sender, id) = (command.command.lane.sender.column, command.command.id.column)
        let isThere: Bool
        if case .final(let final, let since) = command.state {
            let outcome = final.outcome == .succeeded ? try Outcomes.succeeded.get() : try Outcomes.json(final.outcome)
            let (receipt, reply) = (final.receipt.map { Data($0) }, final.reply.map { Data($0) })
            isThere = try database.changesOne(
                """
                UPDATE commands SET state = 2, ended = ?, outcome = ?, deadline = ?, receipt = ?, reply = ?, blob = NULL
                WHERE \(Self.ofKey)
                """,
                [since, outcome, command.nextDeadline, receipt, reply, account.rawValue, sender, id]
            )
        } else {
            // The row keeps its length, so that SQLite does not rewrite a large blob.
            let isCancelRequested = if case .offered(_, cancelRequested: true) = command.state { true } else { false }
            let state = StateCode(command.state).rawValue
            isThere = try database.changesOne(
                "UPDATE commands SET state = ?, cancel_requested = ?, deadline = ? WHERE \(Self.ofKey)",
                [state, isCancelRequested, command.nextDeadline, account.rawValue, sender, id]
            )
        }
        guard isThere else { throw ColumnError() }
    }

    /// A database has no cache of its own: writes nothing.
    func note(_ command: MailboxCommand, account: AccountID) {}

    func removeCommand(_ key: StoredCommandKey) throws {
        try database.execute("DELETE FROM commands WHERE \(Self.ofKey)", Self.values(key))
    }

    func blob(of key: StoredCommandKey) throws -> [UInt8]? {
        try database.first("SELECT blob FROM commands WHERE \(Self.ofKey) AND blob IS NOT NULL", Self.values(key)) { try $0.bytes(0) }
    }

    func mailbox(of target: EndpointID, account: AccountID) throws -> [CommandDescriptor] {
        try database.rows(
            "SELECT \(Self.descriptorColumns) FROM commands WHERE account = ? AND target = ? AND state < 2 ORDER BY sequence",
            [account.rawValue, target.column],
            descriptor
        )
    }

    func mailboxShares(of target: EndpointID, account: AccountID) throws -> [EndpointID: MailboxUse] {
        let shares = try database.rows(
            """
            SELECT sender, count(*), CAST(coalesce(sum(size), 0) AS BIGINT)
            FROM commands WHERE account = ? AND target = ? AND state < 2 GROUP BY sender
            """,
            [account.rawValue, target.column]
        ) { (try $0.endpoint(0), try Self.use($0, 1)) }
        return Dictionary(shares) { first, _ in first }
    }

    func outcomesUse(of sender: EndpointID, account: AccountID) throws -> MailboxUse {
        try database.first(
            """
            SELECT count(*), CAST(coalesce(sum(coalesce(length(receipt), 0) + coalesce(length(reply), 0)), 0) AS BIGINT)
            FROM commands WHERE account = ? AND sender = ? AND state = 2
            """,
            [account.rawValue, sender.column]
        ) { try Self.use($0, 0) } ?? MailboxUse()
    }

    /// Reads two columns, a number and a sum of bytes.
    private static func use(_ row: Database.ResultRow, _ column: Int) throws -> MailboxUse {
        MailboxUse(commands: try row.count(column), bytes: try row.count(column + 1))
    }

    func use(of lane: CommandLane, account: AccountID) throws -> LaneUse {
        let use = try database.first(
            "SELECT count(*), max(number) FROM commands WHERE account = ? AND sender = ? AND target = ? AND app = ?",
            [account.rawValue, lane.sender.column, lane.target.column, lane.appID]
        ) { row in
            try row.optional(1, row.number).map { LaneUse(commands: try row.count(0), highest: $0) } ?? LaneUse()
        }
        return use ?? LaneUse()
    }

    func commands(from sender: EndpointID, isFinal: Bool, account: AccountID) throws -> [CommandKey] {
        let condition = isFinal ? "state = 2" : "state < 2"
        return try database.rows(
            "SELECT id FROM commands WHERE account = ? AND sender = ? AND \(condition) ORDER BY sequence",
            [account.rawValue, sender.column]
        ) { CommandKey(sender: sender, id: try $0.commandID(0)) }
    }

    func nextDue(in scope: AccountScope) throws -> Int64? {
        let times = try [("commands", "deadline"), ("pushes", "due")].compactMap { table, column in
            let (condition, values) = scope.condition(on: table)
            // In the order of the index, so that it is one look.
            return try database.first(
                "SELECT \(column) FROM \(table) WHERE \(column) IS NOT NULL \(condition) ORDER BY \(column) LIMIT 1",
                values
            ) { try $0.integer(0) }
        }
        return times.min()
    }

    func dueCommands(in scope: AccountScope, at time: Int64, limit: Int) throws -> [StoredCommandKey] {
        let (condition, values) = scope.condition(on: "commands")
        return try database.rows(
            "SELECT account, sender, id FROM commands WHERE deadline <= ? \(condition) ORDER BY deadline, sequence LIMIT ?",
            [time] + values + [limit]
        ) {
            StoredCommandKey(
                account: AccountID(try $0.text(0)),
                command: CommandKey(sender: try $0.endpoint(1), id: try $0.commandID(2))
            )
        }
    }
}

/// A state as it is stored.
private enum StateCode: Int64 {
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

private enum Outcomes {
    /// Cached, because nearly all commands end with it.
    static let succeeded = Result { try json(.succeeded) }

    static func json(_ outcome: CommandOutcome) throws -> String { try ValueSetEncoder().encode(outcome).json() }
}
