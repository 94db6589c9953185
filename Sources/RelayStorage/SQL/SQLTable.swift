// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A table that both kinds of databases have, with the same columns.
package struct SQLTable: Hashable, Sendable {
    package let name: String
    /// The columns of its primary key, which order its rows.
    package let key: [String]
    /// The columns by which a row is named to an operator.
    package let names: [String]
    /// Whether the key is a number that the database gives to a new row.
    package let isCounted: Bool
    /// The columns that one kind of database alone has.
    package let own: Set<String>

    package init(_ name: String, key: String..., names: [String]? = nil, isCounted: Bool = false, own: Set<String> = []) {
        (self.name, self.key, self.names, self.isCounted, self.own) = (name, key, names ?? key, isCounted, own)
    }

    /// The name in a statement.
    package var quoted: String { Self.quoted(name) }
    /// The key's columns in a statement.
    package var order: String { key.map(Self.quoted).joined(separator: ", ") }

    /// A name of the schema that may be a word of SQL.
    package static func quoted(_ name: String) -> String { "\"\(name)\"" }
}

package struct SQLColumn: Hashable, Sendable {
    /// What a column holds beside NULL.
    package enum Kind: Sendable {
        case integer, text, bytes
    }

    package let name: String
    /// `nil` if this software has no such columns.
    package let kind: Kind?

    package init(_ name: String, _ kind: Kind?) { (self.name, self.kind) = (name, kind) }
}

extension SQLValue {
    package var kind: SQLColumn.Kind {
        switch self {
        case .integer: .integer
        case .text: .text
        case .bytes: .bytes
        }
    }
}

/// Why whole tables are not read or written.
package enum TableError: Error, Equatable, Sendable, CustomStringConvertible {
    case missing(String)
    /// A file with tables cannot be used.
    case file(String, DatabaseFileError)
    /// A row has a value of another kind than its column.
    case damaged(String)
    /// The table has other columns in the two databases.
    case columns(String)

    package var description: String {
        switch self {
        case .missing(let path): "\(path) is missing: no relay with SQLite has run in this directory"
        case .file(let path, let error): Self.description(path, error)
        case .damaged(let table):
            "a row of the table \(table) is damaged: `relayd store check` names it; mend it, or restore a backup"
        case .columns(let table): "the table \(table) has other columns there: both databases have to be of this version"
        }
    }
}
