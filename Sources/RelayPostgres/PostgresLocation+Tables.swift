// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
package import RelayProtocol
package import RelayServer
package import RelayStorage

/// Reading and writing all tables of a database.
extension PostgresLocation {
    /// Reads all of a relay's database, which may be in use. It writes nothing.
    package func read<Value>(of relay: RelayID, _ body: (any StoreDatabase) throws -> Value) throws -> Value {
        try transact("READ ONLY") { database in
            try Self.check(relay, in: database)
            return try body(database)
        }
    }

    /// Reads all of a relay's database from one snapshot, for a copy that takes its place. No node may live, and no request wait.
    package func snapshot<Value>(of relay: RelayID, _ body: (any StoreDatabase) throws -> Value) throws -> Value {
        try transact("ISOLATION LEVEL REPEATABLE READ, READ ONLY") { database in
            try Self.check(relay, in: database)
            if let number = try database.first("SELECT number FROM node WHERE dead IS NULL ORDER BY number", [], { try $0.count(0) }) {
                throw ConfigurationError(
                    """
                    node \(number) lives, or has ended without a word: stop all nodes, see `relayd node list`; after a crash, start a node for \
                    some 15 seconds, so that it finds the others dead, and stop it
                    """
                )
            }
            let found = try PostgresNode.read(.missing, { 0 }, on: database.connection).0
            guard found.isKnown else {
                throw ConfigurationError(
                    """
                    the PostgreSQL database is a restored copy, or has another primary, and may lack something: start a node with it for a \
                    minute, which treats it as restored, and stop it
                    """
                )
            }
            let requests = try database.first("SELECT count(*) FROM account_request WHERE answer IS NULL") { try $0.count(0) } ?? 0
            guard requests == 0 else {
                throw ConfigurationError(
                    "\(requests) changes by the operator are accepted and not done yet: start a node, which does them within seconds, and stop it"
                )
            }
            return try body(database)
        }
    }

    /// Fills an empty database in one transaction. Until its end, no node starts with it.
    /// - Parameter tables: Must be empty.
    package func fill(for relay: RelayID, _ tables: [SQLTable], _ body: (any StoreDatabase) throws -> Void) throws {
        if let found = try prepare() { throw Self.notEmpty("relay \(found)") }
        try transact("READ WRITE") { database in
            // The row stays locked, and a node that starts needs it.
            let isFree = try database.changes("UPDATE relay SET id = ? WHERE id IS NULL", ["\(relay)"]) == 1
            guard isFree, try tables.allSatisfy({ try database.isEmpty($0) }) else { throw Self.notEmpty("a relay") }
            try body(database)
        }
    }

    private static func notEmpty(_ what: String) -> ConfigurationError {
        ConfigurationError(
            "the PostgreSQL database has data of \(what) already: name an empty one, for example after `createdb`, or drop that one first"
        )
    }

    private static func check(_ relay: RelayID, in database: PostgresDatabase) throws {
        guard try database.first("SELECT to_regclass('schema') IS NOT NULL", [], { try $0.flag(0) }) == true else {
            throw ConfigurationError("the PostgreSQL database has no relay's data")
        }
        let version = try database.first("SELECT version FROM schema") { try $0.count(0) } ?? 0
        guard version <= PostgresSchema.version else { throw PostgresSchema.SchemaTooNew() }
        guard version == PostgresSchema.version else {
            throw ConfigurationError("the PostgreSQL database is of an older version: start a node of this version with it once")
        }
        let found = try database.first("SELECT id FROM relay") { try $0.optional(0, $0.text) } ?? nil
        guard let found else { throw ConfigurationError("the PostgreSQL database has no relay's data") }
        guard found == "\(relay)" else { throw StoreError.ofOtherRelay(found, own: "\(relay)") }
    }

    /// Runs a transaction that may take long.
    private func transact<Value>(_ mode: String, _ body: (PostgresDatabase) throws -> Value) throws -> Value {
        do {
            let connection = try PostgresConnection(PostgresSettings.parameters(connected, of: nil))
            connection.patience = nil
            try connection.begin()
            try connection.send("SET TRANSACTION \(mode)", [])
            for name in ["statement_timeout", "idle_in_transaction_session_timeout"] { try connection.send("SET LOCAL \(name) = 0", []) }
            let value = try body(PostgresDatabase(connection: connection))
            try Self.commit(connection)
            return value
        } catch let error as PostgresError {
            throw StoreError(error)
        } catch is PostgresSchema.SchemaTooNew {
            throw StoreError.tooNew("the PostgreSQL database")
        }
    }

    private static func commit(_ connection: PostgresConnection) throws {
        do throws(PostgresError) {
            try connection.commit()
        } catch {
            if error.isOfStatement || connection.writes == 0 { throw error }
            throw StoreError.unavailable(
                "the connection ended with the last statement, so all of the copy is there, or nothing; do it again: what is there is refused"
            )
        }
    }
}
#endif
