// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import RelayProtocol
import RelayServer
import RelayStorage

/// What a node reads and writes about itself and the others.
extension PostgresNode {
    /// The database's system and timeline, of `pg_control_system() c`.
    static let historyColumn = "CAST(c.system_identifier AS TEXT) || ' ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"

    /// The database's clock. A node with a wrong one deletes no rows of nodes that were alive just now.
    private static let clockColumn = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"

    /// How much later than now the database counts as complete when it begins anew, for nodes whose clocks differ.
    private static let beginMargin: Int64 = 10_000
    /// How long rows of dead nodes are kept.
    private static let deadTime: Int64 = 86_400_000

    /// What a node says of itself.
    struct Row {
        var id: NodeID
        var url: Origin?
        var version: String
    }

    struct Added {
        var reading: NodeBeats.Reading
        var position: Int64
        /// Whether the node's former start on this machine has stored something that the database lacks, or may lack.
        var lacksSomething: Bool
    }

    /// Adds a node's row.
    /// - Parameter former: What the node's former start on this machine has left. That process has ended.
    static func add(_ row: Row, after former: NodeFile.Content?, _ now: () -> Milliseconds, on connection: PostgresConnection) throws
        -> Added
    {
        try connection.begin()
        // The row is locked until the node is there, so that an upgrade that is finished meanwhile waits for it.
        let oldest = try connection.run("SELECT oldest FROM schema FOR SHARE", []).rows.first?.count(0)
        guard let oldest, oldest <= PostgresSchema.version else { throw PostgresSchema.SchemaTooNew() }
        // Their accounts' leases name no live node, with or without the row.
        let old = "dead < \(clockColumn) - \(deadTime)"
        try connection.send("DELETE FROM store_writer w USING node n WHERE n.id = w.node AND n.\(old)", [], mayWrite: true)
        try connection.send("DELETE FROM node WHERE \(old)", [], mayWrite: true)
        let (reading, position) = try read(.alive(isDraining: false), now, on: connection)
        var lacksSomething = false
        if let former {
            let row = try connection.run("SELECT dead IS NULL, history FROM node WHERE id = ?", [.text(former.node)]).rows.first
            // It can look for nothing any more. Its start may be among what is lost.
            let mayLack = try row.map { try $0.flag(0) && $0.optional(1, $0.text) != reading.history } ?? true
            let isBehind = former.history == reading.history && former.position > position
            lacksSomething = isBehind || !reading.isKnown && mayLack
            // Should this one end before it has said what is lost, the others wait for the former one, and the next start still sees it.
            if !lacksSomething {
                try connection.send(
                    "UPDATE node SET dead = \(clockColumn) WHERE id = ? AND dead IS NULL",
                    [.text(former.node)],
                    mayWrite: true
                )
            }
        }
        try connection.send("UPDATE relay SET history = ? WHERE history IS NULL", [.text(reading.history)], mayWrite: true)
        try connection.send(
            "INSERT INTO node (id, url, version, schema, started, history) VALUES (?, ?, ?, ?, ?, ?)",
            [
                .text("\(row.id)"), row.url.map { .text("\($0)") }, .text(row.version), .integer(Int64(PostgresSchema.version)),
                .integer(now().count), reading.isKnown ? .text(reading.history) : nil,
            ],
            mayWrite: true
        )
        try connection.commit()
        return Added(reading: reading, position: position, lacksSomething: lacksSomething)
    }

    /// Commits a beat.
    /// - Returns: What it has read, and how far the database's log was stored.
    static func beat(
        _ id: NodeID,
        takes: Bool,
        accounts: Int,
        _ now: () -> Milliseconds,
        on connection: PostgresConnection
    ) throws -> (NodeBeats.Reading, position: Int64) {
        try connection.begin()
        let own = try connection.run(
            // A node that has started while it was not known what the database has lost can confirm the next history once it is known.
            """
            UPDATE node SET beat = beat + 1, takes = ?, accounts = ?, history = coalesce(
                history, (SELECT r.history FROM relay r, pg_control_system() c WHERE r.history = \(historyColumn))
            ) WHERE id = ? AND dead IS NULL RETURNING draining
            """,
            [.integer(takes ? 1 : 0), .integer(Int64(accounts)), .text("\(id)")],
            mayWrite: true
        ).rows.first
        var row = NodeBeats.Row.missing
        if let own {
            row = .alive(isDraining: try own.flag(0))
        } else if try connection.run("SELECT 1 FROM node WHERE id = ?", [.text("\(id)")]).rows.first != nil {
            row = .dead
        }
        let result = try read(row, now, on: connection)
        try connection.commit(isAwaited: false)
        return result
    }

    /// Reads what a beat reads beside the node's own row.
    static func read(
        _ own: NodeBeats.Row,
        _ now: () -> Milliseconds,
        on connection: PostgresConnection
    ) throws -> (NodeBeats.Reading, position: Int64) {
        let asked = now().count
        let row = try connection.run(
            """
            SELECT \(historyColumn), r.history, (SELECT began FROM meta),
                (SELECT count(*) FROM node WHERE dead IS NULL AND history IS NOT NULL),
                \(clockColumn),
                CAST(pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0') AS BIGINT)
            FROM pg_control_system() c, relay r
            """,
            []
        ).rows.first
        guard let row else { throw ColumnError() }
        // The answer was made between asking and now.
        let clockOffset = try row.integer(4) - (asked + now().count) / 2
        let nodes = try connection.run("SELECT CAST(id AS TEXT), beat, takes, accounts FROM node WHERE dead IS NULL", []).rows
        let reading = NodeBeats.Reading(
            row: own,
            history: try row.text(0),
            known: try row.optional(1, row.text),
            began: try row.optional(2, row.integer),
            witnesses: try row.count(3),
            clockOffset: clockOffset,
            nodes: try nodes.compactMap { node in
                guard let id = NodeID(try node.text(0)) else { return nil }
                return .init(id, beat: try node.integer(1), takesAccounts: try node.flag(2), accounts: try node.optional(3, node.count))
            }
        )
        return (reading, try row.integer(5))
    }

    /// Lets all leases go, also those whose giving back has failed before.
    static func freeLeases(of id: NodeID, on connection: PostgresConnection) throws {
        try write("UPDATE account_lease SET node = NULL WHERE node = ?", [.text("\(id)")], on: connection)
    }

    static func setDead(_ id: NodeID, beat: Int64, on connection: PostgresConnection) throws {
        try connection.begin()
        let set = try connection.run(
            "UPDATE node SET dead = \(clockColumn) WHERE id = ? AND beat = ? AND dead IS NULL",
            [.text("\(id)"), .integer(beat)],
            mayWrite: true
        )
        try connection.commit()
        if set.changes == 1 { try endConnections(of: id, on: connection) }
    }

    /// A transaction of a dead node may hold locks, and that node will send no more.
    static func endConnections(of id: NodeID, on connection: PostgresConnection) throws {
        try connection.begin()
        _ = try connection.run(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ?",
            [.text(PostgresSettings.applicationName(of: id))]
        )
        try connection.commit()
    }

    static func leave(_ id: NodeID, on connection: PostgresConnection) throws {
        try write("UPDATE node SET dead = \(clockColumn) WHERE id = ? AND dead IS NULL", [.text("\(id)")], on: connection)
    }

    // MARK: Another history

    static func confirm(_ history: String, known: String?, by id: NodeID, on connection: PostgresConnection) throws {
        // A node that has started since was never in the former history, and can confirm nothing.
        try write(
            "UPDATE node SET history = ? WHERE id = ? AND history IS NOT NULL",
            [.text(history), .text("\(id)")],
            on: connection
        )
        try write(
            """
            UPDATE relay SET history = ? WHERE history = ?
            AND EXISTS (SELECT 1 FROM node WHERE dead IS NULL AND history = ?)
            AND NOT EXISTS (SELECT 1 FROM node WHERE dead IS NULL AND history IS NOT NULL AND history <> ?)
            """,
            [.text(history), known.map { .text($0) }, .text(history), .text(history)],
            on: connection
        )
    }

    /// The database is complete from now on. A command that was not offered yet may have been offered, cancelled or ended in what is lost; only
    /// its sender knows whether it is still open, and sends it again. Another node may have done so already.
    static func beginAnew(_ history: String, since former: Int64?, at time: Milliseconds, on connection: PostgresConnection) throws {
        try connection.begin()
        try connection.send("SET LOCAL statement_timeout = 0", [])
        try connection.send("SET LOCAL lock_timeout = 0", [])
        let began = time.count + beginMargin
        let changed = try connection.run(
            // A relay that ended at its first start may have left it empty.
            """
            INSERT INTO meta (id, began) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET began = excluded.began WHERE meta.began = ?
            """,
            [.integer(began), .integer(former ?? began)],
            mayWrite: true
        ).changes
        if changed == 1 {
            try connection.send("UPDATE relay SET history = ?", [.text(history)], mayWrite: true)
            try connection.send("UPDATE node SET history = ? WHERE dead IS NULL", [.text(history)], mayWrite: true)
            try connection.send("DELETE FROM commands WHERE state = 0", [], mayWrite: true)
            // Nobody's memory is right any more.
            try connection.send("UPDATE account_lease SET epoch = epoch + 1, node = NULL", [], mayWrite: true)
        }
        try connection.commit()
    }

    private static func write(_ sql: String, _ values: [SQLValue?], on connection: PostgresConnection) throws {
        try connection.begin()
        try connection.send(sql, values, mayWrite: true)
        try connection.commit(isAwaited: false)
    }
}
#endif
