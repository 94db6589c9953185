// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayTesting

/// Every row of a running relay's tables, without the rows of one endpoint and its account.
struct DatabaseDump: Hashable {
    let rows: Set<String>

    init(of relayd: RelaydProcess, besides outsider: WireEndpoint) throws {
        var configuration = GRDB.Configuration()
        configuration.readonly = true
        let queue = try DatabaseQueue(path: relayd.directory.path + "/relay.sqlite", configuration: configuration)
        let (account, endpoint) = (outsider.account, Data(outsider.id.digest.bytes))
        self.rows = try queue.read { database in
            let tables = try String.fetchAll(database, sql: "SELECT name FROM sqlite_master WHERE type = 'table'")
            var rows: Set<String> = []
            for table in tables {
                for row in try Row.fetchAll(database, sql: "SELECT * FROM \"\(table)\"") {
                    let isOwn =
                        switch table {
                        case "accounts": row["id"] == account
                        case "identities", "endpoints", "pushes": row["account"] == account
                        case "registrations": row["endpoint"] == endpoint
                        // The store counts the minutes with commits there.
                        case "meta": true
                        default: false
                        }
                    if !isOwn { rows.insert(table + Self.text(row)) }
                }
            }
            return rows
        }
    }

    /// All rows of a database, as text.
    /// - Parameter columns: Which columns of a table's row count.
    static func rows(of directory: URL, _ file: String, columns: (String, Row) -> [(String, DatabaseValue)]) throws -> Set<String> {
        var configuration = GRDB.Configuration()
        configuration.readonly = true
        return try DatabaseQueue(path: directory.path + "/" + file, configuration: configuration).read { database in
            var rows: Set<String> = []
            for table in try String.fetchAll(database, sql: "SELECT name FROM sqlite_master WHERE type = 'table'") {
                for row in try Row.fetchAll(database, sql: "SELECT * FROM \"\(table)\"") { rows.insert(table + text(columns(table, row))) }
            }
            return rows
        }
    }

    /// Whether any row of a database holds a text, be it in a blob.
    static func contains(_ text: String, in directory: URL, _ file: String) throws -> Bool {
        var configuration = GRDB.Configuration()
        configuration.readonly = true
        let queue = try DatabaseQueue(path: directory.path + "/" + file, configuration: configuration)
        return try queue.read { database in
            for table in try String.fetchAll(database, sql: "SELECT name FROM sqlite_master WHERE type = 'table'") {
                for row in try Row.fetchAll(database, sql: "SELECT * FROM \"\(table)\"") {
                    for (_, value) in row {
                        if let found = Data.fromDatabaseValue(value), found.range(of: Data(text.utf8)) != nil { return true }
                        if let found = String.fromDatabaseValue(value), found.contains(text) { return true }
                    }
                }
            }
            return false
        }
    }

    private static func text(_ row: some Sequence<(String, DatabaseValue)>) -> String {
        row.map { name, value in
            if let data = Data.fromDatabaseValue(value) { return " \(name)=\(data.base64EncodedString())" }
            return " \(name)=\(value)"
        }.joined()
    }
}
