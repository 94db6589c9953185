// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayStorage

/// The tables of a relay's database, of either kind.
package enum RelayTables {
    /// Each one after those that it refers to.
    package static let all = [
        // A SQLite file alone can be put back unseen, so it alone has a mark.
        SQLTable("meta", key: "id", own: ["mark"]),
        SQLTable("accounts", key: "id"),
        SQLTable("quotas", key: "account", "name"),
        SQLTable("removed_identities", key: "issuer", "subject"),
        SQLTable("revoked_tokens", key: "digest"),
        SQLTable("identities", key: "issuer", "subject"),
        SQLTable("endpoints", key: "id"),
        SQLTable("registrations", key: "endpoint", "app"),
        SQLTable("vouchers", key: "endpoint", "giver"),
        SQLTable("pushes", key: "endpoint"),
        SQLTable("revoked", key: "id"),
        SQLTable("commands", key: "sequence", isCounted: true),
        SQLTable("app_identities", key: "id"),
        SQLTable("apps", key: "app", "platform"),
        SQLTable("push_credentials", key: "id"),
    ]

    package static let fileName = "relay.sqlite"

    /// Reads from one snapshot of the SQLite file in a directory, which may be in use.
    package static func snapshot<Value>(in directory: String, _ body: (any StoreDatabase) throws -> Value) throws -> Value {
        try DatabaseFile.snapshot(of: "\(directory)/\(fileName)", migrator: SQLiteSchema.migrator) { try body($0) }
    }

    /// Makes a SQLite file in a directory.
    /// - Parameter mark: See `SQLiteStore`.
    package static func fill(in directory: String, mark: Int64, _ body: (any StoreDatabase) throws -> Void) throws {
        try DatabaseFile.fill("\(directory)/\(fileName)", migrator: SQLiteSchema.migrator) { database in
            try body(database)
            try database.run("UPDATE meta SET mark = ?", [mark])
        }
    }

    /// Checks that the file in a directory is the one that the directory's last relay has written. Only a relay that starts with another one
    /// knows what to do with commands that may have been offered since.
    package static func checkIsLatest(_ database: some SQLDatabase, in lock: StoreLock) throws {
        guard let mark = try database.first("SELECT mark FROM meta", [], { try $0.integer(0) }) else { return }
        guard let last = lock.mark(), mark >= last else {
            throw ConfigurationError(
                """
                \(lock.directory)/\(fileName) is an older copy, or lies in a copied directory: start the relay with it once, which treats it as \
                restored, and stop it
                """
            )
        }
    }
}
