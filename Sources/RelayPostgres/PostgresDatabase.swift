// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import RelayServer
import RelayStorage

/// The statements of a transaction.
struct PostgresDatabase: StoreDatabase {
    let connection: PostgresConnection

    func rows<Value>(_ sql: String, _ values: [(any SQLParameter)?], _ read: (PostgresRow) throws -> Value) throws -> [Value] {
        try connection.run(sql, values.map { $0?.sqlValue }).rows.map(read)
    }

    func execute(_ sql: String, _ values: [(any SQLParameter)?]) throws {
        try connection.send(sql, values.map { $0?.sqlValue }, mayWrite: true)
    }

    func changes(_ sql: String, _ values: [(any SQLParameter)?]) throws -> Int {
        try connection.run(sql, values.map { $0?.sqlValue }, mayWrite: true).changes
    }

    func changesOne(_ sql: String, _ values: [(any SQLParameter)?]) throws -> Bool {
        // The work is alone then, and may have an answer of its own to what is not there.
        if connection.isImmediate { return try changes(sql, values) == 1 }
        try connection.send(sql, values.map { $0?.sqlValue }, mayWrite: true, changesOne: true)
        return true
    }

    static var isShared: Bool { true }

    static func contains(_ column: String) -> String { "position(CAST(? AS bytea) IN \(column)) > 0" }

    func probe() throws { try execute("UPDATE probes SET number = number + 1", []) }

    func failure(_ error: any Error) -> any Error {
        guard let error = error as? PostgresError else { return error }
        return StoreError(error)
    }
}

extension StoreError {
    init(_ error: PostgresError) {
        self =
            switch error {
            case .refused(let code, let message): Self.refused(code, message)
            case .unopened(let reason): .unavailable(reason)
            case .lost(let reason): .unavailable("the connection is lost: \(reason)")
            case .timedOut: .unavailable("its server does not answer")
            case .misused(let reason): .unavailable(reason)
            }
    }

    /// Statements of one connection have reached several servers' processes.
    static let ofPooler = StoreError.unavailable(
        "a pooler gives each transaction another connection: connect to the server directly, or by a pooler in session mode"
    )

    private static func refused(_ code: String, _ message: String) -> StoreError {
        switch code {
        // disk_full
        case "53100": .unavailable("the disk of its server is full")
        // read_only_sql_transaction
        case "25006": .unavailable("its server is a standby: name the primary, too")
        // duplicate_prepared_statement, invalid_sql_statement_name
        case "42P05", "26000": .ofPooler
        // data_corrupted, index_corrupted
        case "XX001", "XX002": .unavailable("it is damaged: restore it from a backup")
        default: .unavailable("\(message) (SQLSTATE \(code))")
        }
    }
}
#endif
