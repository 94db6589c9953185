// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayStorage

/// The tables of the issuer's database, of either kind.
package enum IssuerTables {
    /// Each one after those that it refers to.
    package static let all = [
        SQLTable("seal", key: "one"),
        SQLTable("user", key: "subject"),
        SQLTable("password", key: "subject"),
        SQLTable("set_up", key: "token", names: ["subject"]),
        SQLTable("recovery_code", key: "code"),
        SQLTable("passkey", key: "id"),
        SQLTable("web_session", key: "id"),
        SQLTable("event", key: "id", isCounted: true),
        // The id is a part of its tokens.
        SQLTable("login", key: "id", names: ["session"]),
        SQLTable("invitation", key: "code"),
        SQLTable("authorization_code", key: "code"),
        SQLTable("device_authorization", key: "code"),
        SQLTable("resource_server", key: "name"),
        SQLTable("signing_key", key: "id"),
        SQLTable("issuer_used", key: "id"),
        SQLTable("issuer_attempts", key: "id"),
    ]

    package static let fileName = "issuer.sqlite"

    /// Reads from one snapshot of the SQLite file in a directory, which may be in use.
    package static func snapshot<Value>(in directory: String, _ body: (any SQLDatabase) throws -> Value) throws -> Value {
        try DatabaseFile.snapshot(of: "\(directory)/\(fileName)", migrator: SQLiteIssuerStore.migrator) { try body($0) }
    }

    /// Makes a SQLite file in a directory.
    package static func fill(in directory: String, _ body: (any SQLDatabase) throws -> Void) throws {
        try DatabaseFile.fill("\(directory)/\(fileName)", migrator: SQLiteIssuerStore.migrator) { try body($0) }
    }

    /// Checks that a key sealed the rows of a database.
    package static func checkSeal(of database: any SQLDatabase, by master: MasterKey) throws {
        guard try database.issuerTransaction.seal() != nil else { throw IssuerError.wrongMasterKey }
        try database.issuerTransaction.checkSeal(by: master)
    }
}
