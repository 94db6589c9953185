// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension SQLDatabase {
    /// Copies all rows of a table into another database, in the order of its key.
    /// - Parameter copied: Is called after each row.
    package func copy(_ table: SQLTable, to receiver: some SQLDatabase, copied: () -> Void) throws {
        let columns = try columns(of: table).filter { !table.own.contains($0.name) }
        guard try Set(columns) == Set(receiver.columns(of: table).filter { !table.own.contains($0.name) }) else {
            throw TableError.columns(table.name)
        }
        let names = columns.map { SQLTable.quoted($0.name) }.joined(separator: ", ")
        let insertion = receiver.insertion(names, into: table, count: columns.count)
        try forEachRow(of: table, names) { row in
            let values = try columns.enumerated().map { index, column -> SQLValue? in
                // SQLite has values of any kind in any column, and PostgreSQL would convert some of them.
                let value: SQLValue?
                do { value = try row.value(index) } catch { throw TableError.damaged(table.name) }
                guard value == nil || value?.kind == column.kind else { throw TableError.damaged(table.name) }
                return value
            }
            try receiver.execute(insertion, values)
            copied()
        }
        if table.isCounted { try receiver.countOn(table) }
    }

    private func insertion(_ names: String, into table: SQLTable, count: Int) -> String {
        let values = Array(repeating: "?", count: count).joined(separator: ", ")
        return "INSERT INTO \(table.quoted) (\(names)) \(table.isCounted ? Self.withGivenNumber : "") VALUES (\(values))"
    }

    /// Whether a table has no rows.
    package func isEmpty(_ table: SQLTable) throws -> Bool { try first("SELECT 1 FROM \(table.quoted) LIMIT 1") { _ in } == nil }
}
