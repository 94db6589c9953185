// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import GRDB
import GRDBSQLite

/// The present row of a statement. It is valid until the statement goes on.
package struct SQLiteRow: SQLRow {
    private let statement: SQLiteStatement

    init(_ statement: SQLiteStatement) { self.statement = statement }

    package func isNull(_ column: Int) -> Bool { type(column) == SQLITE_NULL }

    package func integer(_ column: Int) throws -> Int64 {
        guard type(column) == SQLITE_INTEGER else { throw ColumnError() }
        return sqlite3_column_int64(statement, CInt(column))
    }

    package func text(_ column: Int) throws -> String {
        guard type(column) == SQLITE_TEXT, let start = sqlite3_column_text(statement, CInt(column)) else { throw ColumnError() }
        let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, CInt(column))))
        return String(decoding: bytes, as: UTF8.self)
    }

    package func bytes(_ column: Int) throws -> [UInt8] {
        guard type(column) == SQLITE_BLOB else { throw ColumnError() }
        // An empty one has no address.
        guard let start = sqlite3_column_blob(statement, CInt(column)) else { return [] }
        return [UInt8](UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, CInt(column)))))
    }

    package func value(_ column: Int) throws -> SQLValue? {
        switch type(column) {
        case SQLITE_NULL: return nil
        case SQLITE_INTEGER: return .integer(try integer(column))
        case SQLITE_BLOB: return .bytes(Data(try bytes(column)))
        case SQLITE_TEXT:
            guard let start = sqlite3_column_text(statement, CInt(column)) else { throw ColumnError() }
            let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, CInt(column))))
            guard let text = String(validating: bytes, as: UTF8.self), !bytes.contains(0) else { throw ColumnError() }
            return .text(text)
        default: throw ColumnError()
        }
    }

    private func type(_ column: Int) -> CInt { sqlite3_column_type(statement, CInt(column)) }
}

extension Database: SQLDatabase {
    package typealias ResultRow = SQLiteRow

    package func rows<Value>(_ sql: String, _ values: [(any SQLParameter)?], _ read: (SQLiteRow) throws -> Value) throws -> [Value] {
        var rows: [Value] = []
        try step(sql, values, { try DatabaseValue(parameter: $0) }) { rows.append(try read($0)) }
        return rows
    }

    package func execute(_ sql: String, _ values: [(any SQLParameter)?]) throws {
        try step(sql, values, { try DatabaseValue(parameter: $0) }) { _ in }
    }

    package func changesOne(_ sql: String, _ values: [(any SQLParameter)?]) throws -> Bool { try changes(sql, values) == 1 }

    package func changes(_ sql: String, _ values: [(any SQLParameter)?]) throws -> Int {
        try execute(sql, values)
        return changesCount
    }

    package static func contains(_ column: String) -> String { "instr(\(column), ?) > 0" }

    package func forEachRow(of table: SQLTable, _ columns: String, _ body: (SQLiteRow) throws -> Void) throws {
        try step(
            "SELECT \(columns) FROM \(table.quoted) ORDER BY \(table.order)",
            [] as [(any SQLParameter)?],
            { try DatabaseValue(parameter: $0) },
            body
        )
    }

    package func columns(of table: SQLTable) throws -> [SQLColumn] {
        try rows("SELECT name, type FROM pragma_table_info(?)", [table.name]) { row in
            SQLColumn(try row.text(0), ["INTEGER": .integer, "TEXT": .text, "BLOB": .bytes][try row.text(1)])
        }
    }

    package static var withGivenNumber: String { "" }

    /// SQLite counts on from the highest number that there is.
    package func countOn(_ table: SQLTable) {}
}

extension DatabaseValue {
    fileprivate init(parameter: (any SQLParameter)?) throws {
        switch parameter?.sqlValue {
        case .integer(let integer): self = integer.databaseValue
        case .text(let text): try self.init(bound: text)
        case .bytes(let bytes): self = bytes.databaseValue
        case nil: self = .null
        }
    }
}
