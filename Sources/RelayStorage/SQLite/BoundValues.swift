// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import GRDB

/// A text has U+0000, so SQLite would take it for the shorter text before it.
package struct TextError: Error {
    package init() {}
}

extension StatementArguments {
    /// The values of a statement's parameters, and the only way to make them. GRDB passes a text to SQLite as a C string: SQLite would look up
    /// and store another text than the one that was checked.
    /// - Throws: `TextError` if a text has U+0000.
    package static func bound(_ values: [(any DatabaseValueConvertible)?]) throws -> StatementArguments {
        for value in values {
            if case .string(var text)? = value?.databaseValue.storage, text.withUTF8({ $0.contains(0) }) { throw TextError() }
        }
        // GRDB converts an array of another type by key paths, which costs more than the statement.
        return StatementArguments(values)
    }

    package static func bound(_ values: (any DatabaseValueConvertible)?...) throws -> StatementArguments { try bound(values) }
}

extension Database {
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
