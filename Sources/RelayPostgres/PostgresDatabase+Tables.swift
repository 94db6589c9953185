// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import RelayStorage

/// Whole tables.
extension PostgresDatabase {
    /// How many rows are in memory. The largest has half a megabyte.
    private static let page = 64

    func forEachRow(of table: SQLTable, _ columns: String, _ body: (PostgresRow) throws -> Void) throws {
        // A name of its own for each table: a prepared FETCH always gives the same columns.
        let cursor = SQLTable.quoted("rows_\(table.name)")
        try connection.send(
            "DECLARE \(cursor) NO SCROLL CURSOR FOR SELECT \(columns) FROM \(table.quoted) ORDER BY \(table.order)",
            []
        )
        while true {
            let rows = try connection.run("FETCH \(Self.page) FROM \(cursor)", []).rows
            if rows.isEmpty { break }
            for row in rows { try body(row) }
        }
        try connection.send("CLOSE \(cursor)", [])
    }

    func columns(of table: SQLTable) throws -> [SQLColumn] {
        try rows(
            """
            SELECT CAST(a.attname AS TEXT), CAST(t.typname AS TEXT) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
            WHERE a.attrelid = CAST(CAST(? AS TEXT) AS regclass) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
            """,
            [table.quoted]
        ) { row in
            let kinds: [String: SQLColumn.Kind] = [
                "int2": .integer, "int4": .integer, "int8": .integer, "text": .text, "bytea": .bytes,
            ]
            return SQLColumn(try row.text(0), kinds[try row.text(1)])
        }
    }

    static var withGivenNumber: String { "OVERRIDING SYSTEM VALUE" }

    func countOn(_ table: SQLTable) throws {
        guard let column = table.key.first else { return }
        _ = try connection.run(
            "SELECT setval(pg_get_serial_sequence(?, ?), max(\(SQLTable.quoted(column)))) FROM \(table.quoted)",
            [.text(table.quoted), .text(column)],
            mayWrite: true
        )
    }
}
#endif
