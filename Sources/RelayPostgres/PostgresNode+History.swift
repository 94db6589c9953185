// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import RelayProtocol
import RelayServer
import RelayStorage

/// Whether the database has lost something.
///
/// A standby that becomes the primary has another timeline, and a restored database may have another system identifier. Then every node
/// looks whether its last acknowledged transactions are there. If one finds that they are not, or somebody does not say so in time, the
/// database counts as complete only from now on, as after a backup was restored: nothing false is said of what came before.
extension PostgresNode {
    /// How long nodes that were alive may take to find their transactions.
    private static let confirmationTime = Duration.seconds(30)
    /// How much later than now the database counts as complete, for nodes whose clocks differ.
    private static let beginMargin: Int64 = 10_000

    /// What a beat reads.
    struct Facts {
        /// The database's system and timeline, as they are and as they were when all was known to be stored.
        var history: String
        var known: String?
        var began: Int64?
        /// How far the database's clock is ahead of this machine's, in milliseconds.
        var clockOffset: Int64

        /// - Parameter now: This machine's clock.
        init(_ connection: PostgresConnection, now: () -> Milliseconds) throws {
            let asked = now().count
            let row = try connection.run(
                """
                SELECT CAST(c.system_identifier AS TEXT) || ' ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), r.history,
                    (SELECT began FROM meta), CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)
                FROM pg_control_system() c, relay r
                """,
                []
            ).rows.first
            guard let row else { throw ColumnError() }
            history = try row.text(0)
            known = try row.optional(1, row.text)
            began = try row.optional(2, row.integer)
            // The answer was made between asking and now.
            clockOffset = try row.integer(3) - (asked + now().count) / 2
        }
    }

    /// - Returns: Whether the database is the one in which all is known to be stored.
    func follow(_ facts: Facts, on connection: PostgresConnection, _ report: (Event) -> Void) throws -> Bool {
        guard let known = facts.known else {
            try write("UPDATE relay SET history = ? WHERE history IS NULL", [.text(facts.history)], on: connection)
            return true
        }
        guard known != facts.history else {
            withHistory { $0 = .same }
            return true
        }
        forgetOthers()
        let (history, isNew) = withHistory { history -> (History, Bool) in
            if case .changed = history { return (history, false) }
            history = .changed(since: Self.time, isConfirmed: nil)
            return (history, true)
        }
        if isNew { report(.primaryChanged) }
        guard case .changed(let since, let isConfirmed) = history else { return true }
        if isConfirmed == true {
            try write("UPDATE node SET history = ? WHERE id = ?", [.text(facts.history), .text("\(id)")], on: connection)
            try write(
                """
                UPDATE relay SET history = ? WHERE history = ? AND NOT EXISTS (
                    SELECT 1 FROM node WHERE dead IS NULL AND (history IS NULL OR history <> ?)
                )
                """,
                [.text(facts.history), .text(known), .text(facts.history)],
                on: connection
            )
        }
        if isConfirmed == false || Self.time - since >= Self.confirmationTime { try beginAnew(facts, on: connection) }
        return false
    }

    /// The threads of the store have looked.
    func confirm(_ isConfirmed: Bool) {
        withHistory { history in
            if case .changed(let since, _) = history { history = .changed(since: since, isConfirmed: isConfirmed) }
        }
    }

    /// The database is complete from now on. A command that was not offered yet may have been offered, cancelled or ended in what is lost; only
    /// its sender knows whether it is still open, and sends it again.
    private func beginAnew(_ facts: Facts, on connection: PostgresConnection) throws {
        try connection.begin()
        try connection.send("SET LOCAL statement_timeout = 0", [])
        let changed = try connection.run(
            "UPDATE relay SET history = ? WHERE history = ?",
            [.text(facts.history), facts.known.map { .text($0) }],
            mayWrite: true
        ).changes
        if changed == 1 {
            let began = SQLValue.integer(now().count + Self.beginMargin)
            try connection.send("UPDATE meta SET began = ?", [began], mayWrite: true)
            try connection.send("DELETE FROM commands WHERE state = 0", [], mayWrite: true)
            // Nobody's memory is right any more.
            try connection.send("UPDATE account_lease SET epoch = epoch + 1, node = NULL", [], mayWrite: true)
        }
        try connection.commit()
    }

    private func write(_ sql: String, _ values: [SQLValue?], on connection: PostgresConnection) throws {
        try connection.begin()
        try connection.send(sql, values, mayWrite: true)
        try connection.commit(isAwaited: false)
    }
}
#endif
