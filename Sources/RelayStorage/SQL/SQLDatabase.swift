// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import RelayProtocol

/// A database in the middle of a transaction. The statements are those that SQLite and PostgreSQL both understand, with `?` for each parameter.
package protocol SQLDatabase<ResultRow> {
    associatedtype ResultRow: SQLRow

    /// Runs a statement and reads all its rows.
    /// - Parameter read: Reads a row. It runs no other statement.
    func rows<Value>(_ sql: String, _ values: [(any SQLParameter)?], _ read: (ResultRow) throws -> Value) throws -> [Value]

    /// Runs a statement and reads no rows. A database behind a network may report an error only later in the transaction.
    func execute(_ sql: String, _ values: [(any SQLParameter)?]) throws

    /// Runs a statement.
    /// - Returns: The number of rows that it has added, changed or deleted.
    func changes(_ sql: String, _ values: [(any SQLParameter)?]) throws -> Int

    /// Runs a statement that changes or adds one row, or nothing.
    /// - Returns: Whether it has. A database behind a network may suppose so. If it is wrong, it reports an error later in the transaction, and
    ///   does not suppose it when the work is repeated.
    func changesOne(_ sql: String, _ values: [(any SQLParameter)?]) throws -> Bool

    /// The condition that the bytes of a column contain those of the next parameter.
    static func contains(_ column: String) -> String

    // MARK: Whole tables

    /// Reads some columns of all rows of a table, in the order of its key. The rows need not fit into memory.
    func forEachRow(of table: SQLTable, _ columns: String, _ body: (ResultRow) throws -> Void) throws

    func columns(of table: SQLTable) throws -> [SQLColumn]

    /// The clause with which an insertion gives the number of a counted table.
    static var withGivenNumber: String { get }

    /// Makes the next numbers of a counted table higher than those of its rows.
    func countOn(_ table: SQLTable) throws
}

extension SQLDatabase {
    package func rows<Value>(_ sql: String, _ read: (ResultRow) throws -> Value) throws -> [Value] { try rows(sql, [], read) }

    /// - Returns: `nil` if there is no row.
    package func first<Value>(_ sql: String, _ values: [(any SQLParameter)?] = [], _ read: (ResultRow) throws -> Value) throws -> Value? {
        try rows(sql, values, read).first
    }
}

/// A row of a result. Columns are read by index, from 0. The content is not trusted: each method throws `ColumnError` if the column has
/// another type, or is null.
package protocol SQLRow {
    func isNull(_ column: Int) -> Bool
    /// Also a truth value: 0 or 1.
    func integer(_ column: Int) throws -> Int64
    func text(_ column: Int) throws -> String
    func bytes(_ column: Int) throws -> [UInt8]
    /// Any value, exactly as it is stored. `nil` means NULL.
    func value(_ column: Int) throws -> SQLValue?
}

extension SQLRow {
    package func flag(_ column: Int) throws -> Bool { try integer(column) != 0 }

    package func count(_ column: Int) throws -> Int { Int(clamping: try integer(column)) }

    /// - Returns: `nil` if the column is null.
    package func optional<Value>(_ column: Int, _ read: (Int) throws -> Value) rethrows -> Value? {
        isNull(column) ? nil : try read(column)
    }
}

/// A value of a statement's parameter.
package enum SQLValue: Hashable, Sendable {
    case integer(Int64)
    case text(String)
    case bytes(Data)
}

/// What can be the value of a statement's parameter. `nil` means NULL.
package protocol SQLParameter {
    var sqlValue: SQLValue { get }
}

extension SQLValue: SQLParameter { package var sqlValue: SQLValue { self } }

extension Int64: SQLParameter { package var sqlValue: SQLValue { .integer(self) } }
extension Int: SQLParameter { package var sqlValue: SQLValue { .integer(Int64(self)) } }
/// 0 or 1.
extension Bool: SQLParameter { package var sqlValue: SQLValue { .integer(self ? 1 : 0) } }
extension String: SQLParameter { package var sqlValue: SQLValue { .text(self) } }
extension Data: SQLParameter { package var sqlValue: SQLValue { .bytes(self) } }

/// Columns of this software's own values.
extension SQLRow {
    package func digest(_ column: Int) throws -> Digest256 { try Digest256(column: try bytes(column)) }

    package func endpoint(_ column: Int) throws -> EndpointID { EndpointID(digest: try digest(column)) }

    package func commandID(_ column: Int) throws -> CommandID { try CommandID(column: Data(try bytes(column))) }

    package func number(_ column: Int) throws -> UInt64 { NumberColumn.decode(try integer(column)) }
}
