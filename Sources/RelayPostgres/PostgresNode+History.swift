// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import RelayProtocol
import RelayServer
import RelayStorage

/// Whether the database has lost something.
///
/// A standby that becomes the primary has another timeline, and a restored database may have another system identifier: another *history*. Then
/// each living node of the former history checks that its last acknowledged transactions are there. If one of them is missing, if there is no
/// such node, or if one does not answer in time, the database counts as complete only from now on, as after a backup was restored. The
/// relay then states no outcome that it cannot know.
extension PostgresNode {
    /// The database's system and timeline, of `pg_control_system() c`.
    static let historyColumn = "CAST(c.system_identifier AS TEXT) || ' ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"

    /// How long nodes that were alive may take to find their transactions.
    private static let confirmationTime = Duration.seconds(30)
    /// How much later than now the database counts as complete, for nodes whose clocks differ.
    private static let beginMargin: Int64 = 10_000

    /// What a beat reads.
    struct Facts {
        var history: String
        /// The history in which all is known to be stored; `nil` in a new database.
        var known: String?
        var began: Int64?
        /// How many living nodes were in a history in which all was known to be stored, and so can confirm another one.
        var witnesses: Int
        /// How far the database's clock is ahead of this machine's, in milliseconds.
        var clockOffset: Int64

        /// - Parameter now: This machine's clock.
        init(_ connection: PostgresConnection, now: () -> Milliseconds) throws {
            let asked = now().count
            let row = try connection.run(
                """
                SELECT \(PostgresNode.historyColumn), r.history, (SELECT began FROM meta),
                    (SELECT count(*) FROM node WHERE dead IS NULL AND history IS NOT NULL),
                    CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)
                FROM pg_control_system() c, relay r
                """,
                []
            ).rows.first
            guard let row else { throw ColumnError() }
            history = try row.text(0)
            known = try row.optional(1, row.text)
            began = try row.optional(2, row.integer)
            // The answer was made between asking and now.
            witnesses = try row.count(3)
            clockOffset = try row.integer(4) - (asked + now().count) / 2
        }
    }

    /// Whether a connection to a database with this history may be used.
    func mayUse(_ history: String) -> Bool {
        withHistory { known in
            switch known {
            case .same(let same): same == history
            case .changed(let changed, _, let isConfirmed): changed == history && isConfirmed == true
            }
        }
    }

    /// A thread of the store has found that the database lacks what it has stored.
    func noteLoss() { withLoss { $0 = true } }

    /// - Returns: Whether the database is the one in which all is known to be stored.
    func follow(_ facts: Facts, on connection: PostgresConnection, _ report: (Event) -> Void) throws -> Bool {
        if withLoss({ $0 }) {
            try beginAnew(facts, on: connection)
            withLoss { $0 = false }
            return false
        }
        guard facts.known != facts.history else {
            withHistory { $0 = .same(facts.history) }
            return true
        }
        forgetOthers()
        let (history, isNew) = withHistory { history -> (History, Bool) in
            if case .changed(facts.history, _, _) = history { return (history, false) }
            history = .changed(facts.history, since: Self.time, isConfirmed: nil)
            return (history, true)
        }
        if isNew { report(.primaryChanged) }
        guard case .changed(_, let since, let isConfirmed) = history else { return true }
        if isConfirmed == true {
            // A node that has started since was never in the former history, and can confirm nothing.
            try write(
                "UPDATE node SET history = ? WHERE id = ? AND history IS NOT NULL",
                [.text(facts.history), .text("\(id)")],
                on: connection
            )
            try write(
                """
                UPDATE relay SET history = ? WHERE history = ?
                AND EXISTS (SELECT 1 FROM node WHERE dead IS NULL AND history = ?)
                AND NOT EXISTS (SELECT 1 FROM node WHERE dead IS NULL AND history IS NOT NULL AND history <> ?)
                """,
                [.text(facts.history), facts.known.map { .text($0) }, .text(facts.history), .text(facts.history)],
                on: connection
            )
        }
        if isConfirmed == false || facts.witnesses == 0 || Self.time - since >= Self.confirmationTime {
            try beginAnew(facts, on: connection)
        }
        return false
    }

    /// The threads of the store have looked.
    func confirm(_ isConfirmed: Bool) {
        withHistory { history in
            if case .changed(let changed, let since, _) = history {
                history = .changed(changed, since: since, isConfirmed: isConfirmed)
            }
        }
    }

    /// The database is complete from now on. A command that was not offered yet may have been offered, cancelled or ended in what is lost; only
    /// its sender knows whether it is still open, and sends it again. Another node may have done so already.
    private func beginAnew(_ facts: Facts, on connection: PostgresConnection) throws {
        try connection.begin()
        try connection.send("SET LOCAL statement_timeout = 0", [])
        try connection.send("SET LOCAL lock_timeout = 0", [])
        let began = now().count + Self.beginMargin
        let changed = try connection.run(
            "UPDATE meta SET began = ? WHERE began = ?",
            [.integer(began), .integer(facts.began ?? began)],
            mayWrite: true
        ).changes
        if changed == 1 {
            try connection.send("UPDATE relay SET history = ?", [.text(facts.history)], mayWrite: true)
            try connection.send("UPDATE node SET history = ? WHERE dead IS NULL", [.text(facts.history)], mayWrite: true)
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
