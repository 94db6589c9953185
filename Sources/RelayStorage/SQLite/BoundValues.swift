// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import GRDB
import GRDBSQLite

/// A text has U+0000, so SQLite would take it for the shorter text before it.
package struct TextError: Error {
    package init() {}
}

extension DatabaseValue {
    /// The value of a statement's parameter. GRDB passes a text to SQLite as a C string: SQLite would look up and store another text than the
    /// one that was checked.
    /// - Throws: `TextError` if a text has U+0000.
    init(bound value: (any DatabaseValueConvertible)?) throws {
        self = value?.databaseValue ?? .null
        if case .string(var text) = storage, text.withUTF8({ $0.contains(0) }) { throw TextError() }
    }
}

extension StatementArguments {
    /// The values of a statement's parameters, and with `Database.run` the only way to give them.
    /// - Throws: `TextError` if a text has U+0000.
    package static func bound(_ values: [(any DatabaseValueConvertible)?]) throws -> StatementArguments {
        // GRDB converts an array of another type by key paths, which costs more than the statement.
        StatementArguments(try values.map { try DatabaseValue(bound: $0) } as [(any DatabaseValueConvertible)?])
    }

    package static func bound(_ values: (any DatabaseValueConvertible)?...) throws -> StatementArguments { try bound(values) }
}

extension Database {
    /// Runs a statement and ignores its rows. The values are in the order of its parameters.
    /// - Throws: `TextError` if a text has U+0000; `DatabaseError`.
    package func run(_ sql: String, _ values: [(any DatabaseValueConvertible)?] = []) throws {
        try step(sql, values, { try DatabaseValue(bound: $0) }) { _ in }
    }

    /// Runs a statement, which is compiled once. The values go to SQLite directly: GRDB's own way there costs more than a short statement.
    /// - Parameters:
    ///   - bound: Converts a value.
    ///   - row: Called for each row.
    func step<Value>(
        _ sql: String,
        _ values: [Value],
        _ bound: (Value) throws -> DatabaseValue,
        _ row: (SQLiteRow) throws -> Void
    ) throws {
        let statement = try cachedStatement(sql: sql).sqliteStatement
        func check(_ code: CInt, is expected: CInt) throws {
            guard code == expected else {
                throw DatabaseError(resultCode: ResultCode(rawValue: code), message: lastErrorMessage, sql: sql)
            }
        }
        guard sqlite3_bind_parameter_count(statement) == CInt(clamping: values.count) else {
            throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "a statement needs a value for each of its parameters", sql: sql)
        }
        defer {
            sqlite3_reset(statement)
            // A large blob is kept no longer.
            sqlite3_clear_bindings(statement)
        }
        for (index, value) in zip(CInt(1)..., values) { try check(bound(value).bind(to: statement, at: index), is: SQLITE_OK) }
        var code = sqlite3_step(statement)
        while code == SQLITE_ROW {
            try row(SQLiteRow(statement))
            code = sqlite3_step(statement)
        }
        try check(code, is: SQLITE_DONE)
    }

    /// Whether a text in any table has U+0000, which this software never writes. GRDB would read the shorter text before it.
    func hasCutText() throws -> Bool {
        func quoted(_ name: String) -> String { "\"\(name.replacing("\"", with: "\"\""))\"" }
        let tables = try String.fetchAll(
            self,
            sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        return try tables.contains { table in
            try String.fetchAll(
                self,
                sql: "SELECT name FROM pragma_table_info(?) WHERE upper(type) = 'TEXT'",
                arguments: .bound(table)
            ).contains { column in
                let name = quoted(column)
                return try Bool.fetchOne(
                    self,
                    sql: "SELECT EXISTS (SELECT 1 FROM \(quoted(table)) WHERE instr(CAST(\(name) AS BLOB), x'00') > 0)"
                ) ?? false
            }
        }
    }
}
