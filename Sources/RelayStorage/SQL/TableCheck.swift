// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// How the rows of a table are decoded.
package struct TableCheck<Row: SQLRow> {
    package let table: SQLTable
    private let columns: [String]
    private let decode: (Row) throws -> Void

    /// - Parameters:
    ///   - columns: As in a statement.
    ///   - decode: Reads these columns, and throws if this software did not write them.
    package init(_ table: SQLTable, _ columns: String, _ decode: @escaping (Row) throws -> Void) {
        self.table = table
        self.columns = columns.split(separator: ",").map { String($0) }
        self.decode = decode
    }

    /// Decodes every row.
    /// - Parameters:
    ///   - checked: Is called after each row.
    ///   - damaged: Is called with the names of each row that cannot be decoded, never with its content.
    package func run(
        on database: some SQLDatabase<Row>,
        checked: () -> Void,
        damaged: (String) throws -> Void
    ) throws {
        let all = columns + table.names.map(SQLTable.quoted)
        try database.forEachRow(of: table, all.joined(separator: ", ")) { row in
            let isWhole = (try? decode(row)) != nil
            if !isWhole { try damaged((columns.count..<all.count).map { Self.text(row, $0) }.joined(separator: " ")) }
            checked()
        }
    }

    /// A part of a row's name. It is not trusted either.
    private static func text(_ row: Row, _ column: Int) -> String {
        guard let value = try? row.value(column) else { return "?" }
        return switch value {
        case .integer(let integer): "\(integer)"
        case .text(let text): String(text.prefix(1_024))
        case .bytes(let bytes): Hexadecimal.encode(bytes.prefix(1_024))
        }
    }
}

extension SQLRow {
    /// Checks a text without a form of its own.
    package func check(texts columns: Int...) throws {
        for column in columns where try value(column)?.kind != .text { throw ColumnError() }
    }

    package func check(integers columns: Int...) throws {
        for column in columns { _ = try integer(column) }
    }
}
