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
}
