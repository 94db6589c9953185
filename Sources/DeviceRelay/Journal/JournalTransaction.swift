// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
package import RelayProtocol
import RelayStorage

/// The operations on the journal in a transaction.
package struct JournalTransaction {
    let database: Database
    let journal: Journal

    /// Writes one page without changing any data. If this fails, the storage does not work.
    package func probe() throws { try run("PRAGMA user_version = 0") }

    // MARK: Statements

    /// Returns a cached statement, because compiling it takes longer than running it.
    func statement(_ sql: String) throws -> Statement { try database.cachedStatement(sql: sql) }

    func run(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?] = []) throws { try database.run(sql, arguments) }

    // MARK: Time

    /// The relay's time minus the local time, in milliseconds; `nil` before the first challenge.
    package func relayOffset() throws -> Int64? {
        try Row.fetchOne(statement("SELECT relay_offset FROM meta"))?.value("relay_offset")
    }

    package func setRelayOffset(_ offset: Int64) throws {
        try run("UPDATE meta SET relay_offset = ?", [offset])
    }

    // MARK: Sent commands

    /// The content of a sent command.
    package struct SentContent: Hashable, Sendable {
        /// The sealed command. Every retry sends exactly these bytes.
        package var blob: [UInt8]
        /// The unsealed content. Only the target can open the blob, so signing the command again needs this.
        package var body: [UInt8]
        /// The target's signed record, to check its receipt even if the target is no longer in the directory.
        package var target: [UInt8]

        package init(blob: [UInt8], body: [UInt8], target: [UInt8]) {
            self.blob = blob
            self.body = body
            self.target = target
        }
    }

    /// Returns the lane's next number: `lowest`, or the next one after the highest used number. Once the transaction is committed, the
    /// number counts as used, even if no command uses it.
    package func nextNumber(to target: EndpointID, appID: String, from lowest: UInt64) throws -> UInt64 {
        let row = try Row.fetchOne(
            statement(
                """
                INSERT INTO sent_lanes (target, app, highest) VALUES (?, ?, ?)
                ON CONFLICT (target, app) DO UPDATE SET highest = max(highest + 1, excluded.highest) WHERE highest < ? RETURNING highest
                """
            ),
            arguments: .bound(target.column, appID, NumberColumn.encode(lowest), NumberColumn.encode(CommandNumber.maximum))
        )
        guard let next = try row?.number("highest") else { throw ColumnError() }
        return next
    }

    /// Takes over the lane's highest number from another party, so that the next command is above it.
    /// - Returns: Whether the lane was behind.
    @discardableResult
    package func raiseLane(_ lane: CommandLane, to number: UInt64) throws -> Bool {
        guard number <= CommandNumber.maximumFromOthers else { return false }
        try raiseSentLane(lane.target, lane.appID, to: number)
        return database.changesCount > 0
    }

    private func raiseSentLane(_ target: EndpointID, _ appID: String, to number: UInt64) throws {
        try run(
            """
            INSERT INTO sent_lanes (target, app, highest) VALUES (?, ?, ?)
            ON CONFLICT (target, app) DO UPDATE SET highest = excluded.highest WHERE excluded.highest > highest
            """,
            [target.column, appID, NumberColumn.encode(number)]
        )
    }

    /// Stores a new command, which has the lane's next number.
    /// - Throws: `LimitExceeded` if too many commands are open. The oldest ended commands are deleted to make room, several at a time.
    package func insert(_ sent: SentCommand, _ content: SentContent) throws {
        let limit = journal.limits[.mailboxCommands]
        try journal.limits.check(.mailboxCommands, (try Int.fetchOne(statement(Self.countOpen)) ?? 0) + 1)
        if journal.isTimeToTrim() {
            try run(
                """
                DELETE FROM sent_commands WHERE id IN (
                    SELECT id FROM sent_commands WHERE NOT \(JournalSchema.isOpen) ORDER BY id DESC LIMIT -1 OFFSET ?)
                AND NOT EXISTS (SELECT 1 FROM submissions WHERE command = sent_commands.id)
                """,
                [limit - 1]
            )
        }
        try run(Self.insertSent, Self.signedValues(sent) + Self.stateValues(sent) + [sent.isDirect, sent.isShared])
        try run(
            "INSERT INTO sent_blobs (id, blob, body, target) VALUES (?, ?, ?, ?)",
            [sent.command.id.column, Data(content.blob), Data(content.body), Data(content.target)]
        )
    }

    /// The new content of a command that was signed again.
    package struct ResignedContent: Hashable, Sendable {
        package var content: SentContent
        /// The digest of the bytes in whose place it comes.
        package var earlier: Digest256

        package init(_ content: SentContent, insteadOf earlier: Digest256) {
            self.content = content
            self.earlier = earlier
        }
    }

    /// Stores a command's new state, and its new content if it was signed again.
    /// - Returns: False if another process has stored the command's end, has signed it again, sent it or marked it as direct meanwhile, or has
    ///   deleted it. Then nothing is changed. That another process may have sent it stays stored.
    @discardableResult
    package func update(_ sent: SentCommand, _ resigned: ResignedContent? = nil) throws -> Bool {
        let earlier = resigned?.earlier ?? sent.command.digest
        try run(
            resigned == nil ? Self.update(sent.precondition) : Self.updateSigned,
            Self.stateValues(sent) + [sent.isShared, sent.command.id.column, earlier.column]
        )
        guard database.changesCount > 0 else { return false }
        if let content = resigned?.content {
            try raiseSentLane(sent.command.lane.target, sent.command.lane.appID, to: sent.command.number)
            try run(
                "UPDATE sent_commands SET (\(Self.signedColumns)) = (\(Self.marks(8))) WHERE id = ?",
                Self.signedValues(sent) + [sent.command.id.column]
            )
            try run(
                "UPDATE sent_blobs SET blob = ?, body = ?, target = ? WHERE id = ?",
                [Data(content.blob), Data(content.body), Data(content.target), sent.command.id.column]
            )
        }
        return true
    }

    /// Marks all open commands to a target as direct: from now on the target may get them without the relay.
    /// - Returns: These commands, sorted by number.
    package func markDirect(to target: EndpointID) throws -> [SentCommand] {
        try run(Self.markDirect, [target.column])
        return try Row.fetchAll(statement(Self.selectOpen), arguments: .bound(target.column)).map(sentCommand)
    }

    /// Whether a lane has a command that has not ended.
    package func hasOpenCommands(in lane: CommandLane) throws -> Bool {
        try Row.fetchOne(statement(Self.selectOpenInLane), arguments: .bound(lane.target.column, lane.appID)) != nil
    }

    /// The targets of the open commands.
    package func openTargets() throws -> Set<EndpointID> {
        let sql = "SELECT DISTINCT target FROM sent_commands INDEXED BY sent_commands_open WHERE \(JournalSchema.isOpen)"
        return Set(try Row.fetchAll(statement(sql)).map { try $0.endpoint("target") })
    }

    /// Deletes a command that the app no longer needs.
    package func forgetSent(_ id: CommandID) throws {
        try run("DELETE FROM sent_commands WHERE id = ?", [id.column])
    }

    package func sentContent(_ id: CommandID) throws -> SentContent? {
        try Row.fetchOne(statement("SELECT blob, body, target FROM sent_blobs WHERE id = ?"), arguments: .bound(id.column))
            .map { SentContent(blob: try $0.bytes("blob"), body: try $0.bytes("body"), target: try $0.bytes("target")) }
    }

    /// Reads a command from the database, because another process of the endpoint may have changed it.
    package func sent(_ id: CommandID) throws -> SentCommand? {
        try Row.fetchOne(statement("SELECT * FROM sent_commands WHERE id = ?"), arguments: .bound(id.column)).map(sentCommand)
    }

    /// The commands of a lane without a stored answer of the relay, sorted by number.
    package func unansweredCommands(to target: EndpointID, appID: String) throws -> [CommandID] {
        try Row.fetchAll(statement(Self.selectUnanswered), arguments: .bound(target.column, appID)).map { try $0.commandID("id") }
    }

    /// The open commands, sorted by id.
    package func openCommands() throws -> [SentCommand] {
        try Row.fetchAll(statement("SELECT * FROM sent_commands WHERE \(JournalSchema.isOpen) ORDER BY id")).map(sentCommand)
    }

    /// All commands, sorted by id.
    package func sentCommands() throws -> [SentCommand] {
        try Row.fetchAll(statement("SELECT * FROM sent_commands ORDER BY id")).map(sentCommand)
    }

    private static func marks(_ count: Int) -> String { Array(repeating: "?", count: count).joined(separator: ", ") }

    // Constants, so that the strings are built only once.
    private static let countOpen = "SELECT count(*) FROM sent_commands INDEXED BY sent_commands_open WHERE \(JournalSchema.isOpen)"
    private static let selectUnanswered = """
        SELECT id FROM sent_commands INDEXED BY sent_commands_open
        WHERE target = ? AND app = ? AND (state = 'prepared' OR state = 'sent') AND \(JournalSchema.isOpen) ORDER BY number
        """
    private static let selectOpenInLane = """
        SELECT 1 FROM sent_commands INDEXED BY sent_commands_open WHERE target = ? AND app = ? AND \(JournalSchema.isOpen) LIMIT 1
        """
    private static let insertSent = "INSERT INTO sent_commands (\(signedColumns), \(stateColumns), direct, shared) VALUES (\(marks(24)))"
    private static let updateState = """
        UPDATE sent_commands SET (\(stateColumns)) = (\(marks(14))), shared = max(shared, ?) WHERE id = ? AND digest = ? AND \(JournalSchema.isOpen)
        """
    private static let updateAtRelay = "\(updateState) AND direct = 0"
    private static let updateRefused = "\(updateAtRelay) AND shared = 0 AND state IN ('prepared', 'sent')"
    private static let updateNeverSent = "\(updateState) AND state = 'prepared' AND signings = 1"
    private static let updateSigned = "\(updateAtRelay) AND state = 'prepared'"

    private static func update(_ precondition: SentCommand.Precondition) -> String {
        switch precondition {
        case .open: updateState
        case .onlyAtRelay: updateAtRelay
        case .onlyRefused: updateRefused
        case .neverSent: updateNeverSent
        }
    }

    private static let markDirect = """
        UPDATE sent_commands SET direct = 1, state = CASE state WHEN 'prepared' THEN 'sent' ELSE state END
        WHERE target = ? AND direct = 0 AND \(JournalSchema.isOpen)
        """
    private static let selectOpen = "SELECT * FROM sent_commands WHERE target = ? AND \(JournalSchema.isOpen) ORDER BY number"

    // The columns that change only when the command is signed again.
    private static let signedColumns = "id, target, app, number, created, expires, digest, size"

    private static func signedValues(_ sent: SentCommand) -> [(any DatabaseValueConvertible)?] {
        let command = sent.command
        return [
            command.id.column, command.lane.target.column, command.lane.appID, NumberColumn.encode(command.number), command.created,
            command.expires, command.digest.column, command.size,
        ]
    }

    private static let stateColumns = """
        signings, cancel_requested, state, progress, rejection, rejection_limit, limit_allowed, limit_requested, may_have_run, outcome, outcome_reason, \
        attested_by, receipt, reply
        """

    private static func stateValues(_ sent: SentCommand) -> [(any DatabaseValueConvertible)?] {
        var (progress, rejection, final): (CommandProgress?, CommandRejection?, CommandFinal?)
        let state: String
        switch sent.state {
        case .prepared: state = "prepared"
        case .queued, .sent: state = "sent"
        case .withdrawn: state = "withdrawn"
        case .accepted(let value): (state, progress) = ("accepted", value)
        case .refused(let value): (state, rejection) = ("refused", value)
        case .final(let value): (state, final) = ("final", value)
        }
        return [
            sent.signings, sent.cancelRequested, state, progress?.column, rejection?.reason.column, rejection?.reason.limit?.limit.rawValue,
            rejection?.reason.limit?.allowed, rejection?.reason.limit?.requested, rejection?.mayHaveRun, final?.outcome.column,
            final?.outcome.reasonColumn, final?.attestedBy.rawValue, final?.receipt.map { Data($0) }, final?.reply.map { Data($0) },
        ]
    }

    private func sentCommand(_ row: Row) throws -> SentCommand {
        SentCommand(
            restoring: try row.descriptor(sender: journal.endpoint, target: row.endpoint("target")),
            state: try sentState(row),
            cancelRequested: try row.required("cancel_requested"),
            signings: try row.required("signings"),
            isDirect: try row.required("direct"),
            isShared: try row.required("shared")
        )
    }

    private func sentState(_ row: Row) throws -> SentCommand.State {
        switch try row.required("state", as: String.self) {
        case "prepared": return .prepared
        case "sent": return .sent
        case "withdrawn": return .withdrawn
        case "accepted":
            guard let progress = CommandProgress(column: try row.required("progress")) else { throw ColumnError() }
            return .accepted(progress)
        case "refused":
            let limit = try row.value("rejection_limit", as: String.self).map { name in
                guard let limit = Limit(rawValue: name) else { throw ColumnError() }
                return LimitExceeded(
                    limit: limit,
                    allowed: try row.required("limit_allowed"),
                    requested: try row.required("limit_requested")
                )
            }
            guard let reason = CommandRejection.Reason(column: try row.required("rejection"), limit: limit) else { throw ColumnError() }
            return .refused(CommandRejection(reason, mayHaveRun: try row.required("may_have_run")))
        case "final":
            switch CommandAttestation(rawValue: try row.required("attested_by")) {
            case .target:
                let (receipt, reply) = (try row.bytes("receipt"), try row.optionalBytes("reply"))
                return .final(CommandFinal(outcome: try row.outcome(), receipt: receipt, reply: reply))
            case .relay: return .final(CommandFinal(attestedByRelay: try row.outcome()))
            case nil: throw ColumnError()
            }
        default: throw ColumnError()
        }
    }
}
