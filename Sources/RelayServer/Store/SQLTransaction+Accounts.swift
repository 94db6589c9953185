// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayStorage

/// Accounts, their identities, and revoked tokens.
extension SQLTransaction {
    func accounts() throws -> [AccountRow] { try accounts(only: nil) }
    func account(_ id: AccountID) throws -> AccountRow? { try accounts(only: id).first }

    /// - Parameter only: `nil` for all.
    private func accounts(only id: AccountID?) throws -> [AccountRow] {
        let values: [(any SQLParameter)?] = id.map { [$0.rawValue] } ?? []
        let rows = try database.rows(
            """
            SELECT id, name, disabled, created, (SELECT count(*) FROM endpoints WHERE account = accounts.id)
            FROM accounts \(id == nil ? "" : "WHERE id = ?") ORDER BY created, id
            """,
            values
        ) { row in
            AccountRow(
                id: AccountID(try row.text(0)),
                name: try row.optional(1, row.text),
                isDisabled: try row.flag(2),
                created: try row.integer(3),
                identities: [],
                endpoints: try row.count(4)
            )
        }
        // All in one statement, since there may be many accounts.
        let (identities, quotas) = (try identities(ofOnly: id), try quotas(ofOnly: id))
        return rows.map { row in
            var row = row
            row.identities = identities[row.id] ?? []
            row.quotas = quotas[row.id] ?? AccountQuotas()
            return row
        }
    }

    func names() throws -> [String] { try database.rows("SELECT name FROM accounts WHERE name IS NOT NULL") { try $0.text(0) } }

    private func identities(ofOnly account: AccountID?) throws -> [AccountID: [AccountIdentity]] {
        let rows = try database.rows(
            """
            SELECT account, issuer, subject, added, linker FROM identities \(account == nil ? "" : "WHERE account = ?")
            ORDER BY issuer, subject
            """,
            account.map { [$0.rawValue] } ?? []
        ) { row in
            let identity = Identity(issuer: try row.text(1), subject: try row.text(2))
            return (
                AccountID(try row.text(0)),
                AccountIdentity(identity, linker: try row.optional(4, row.endpoint), added: try row.integer(3))
            )
        }
        return Dictionary(grouping: rows, by: \.0).mapValues { $0.map(\.1) }
    }

    func facts(of id: AccountID) throws -> AccountFacts {
        try database.first(
            "SELECT name, disabled, (SELECT count(*) FROM endpoints WHERE account = accounts.id) FROM accounts WHERE id = ?",
            [id.rawValue]
        ) { row in
            AccountFacts(name: try row.optional(0, row.text), isDisabled: try row.flag(1), endpoints: try row.count(2))
        } ?? AccountFacts()
    }

    func isDisabled(_ id: AccountID) throws -> Bool {
        try database.first("SELECT disabled FROM accounts WHERE id = ?", [id.rawValue]) { try $0.flag(0) } ?? false
    }

    func name(of id: AccountID) throws -> String? {
        try database.first("SELECT name FROM accounts WHERE id = ?", [id.rawValue]) { try $0.optional(0, $0.text) } ?? nil
    }

    func setName(_ name: String, of id: AccountID) throws {
        let holder = try database.first("SELECT id FROM accounts WHERE name = ?", [name]) { try $0.text(0) }
        guard holder == nil || holder == id.rawValue else { throw AccountNameTaken() }
        try database.execute("UPDATE accounts SET name = ? WHERE id = ?", [name, id.rawValue])
    }

    func setDisabled(_ isDisabled: Bool, of id: AccountID) throws {
        try database.execute("UPDATE accounts SET disabled = ? WHERE id = ?", [isDisabled, id.rawValue])
    }

    func add(_ identity: AccountIdentity, to id: AccountID) throws {
        let (issuer, subject) = (identity.identity.issuer, identity.identity.subject)
        try database.execute(
            "INSERT INTO identities (issuer, subject, account, linker, added) VALUES (?, ?, ?, ?, ?)",
            [issuer, subject, id.rawValue, identity.linker?.column, identity.added]
        )
        try database.execute("DELETE FROM removed_identities WHERE issuer = ? AND subject = ?", [issuer, subject])
    }

    func remove(_ identity: Identity, from id: AccountID) throws {
        try database.execute(
            "DELETE FROM identities WHERE issuer = ? AND subject = ? AND account = ?",
            [identity.issuer, identity.subject, id.rawValue]
        )
    }

    func removeAccount(_ id: AccountID, time: Int64) throws {
        try database.execute(
            """
            INSERT INTO removed_identities (issuer, subject, removed)
            SELECT issuer, subject, CAST(? AS BIGINT) FROM identities WHERE account = ?
            ON CONFLICT (issuer, subject) DO UPDATE SET removed = excluded.removed
            """,
            [time, id.rawValue]
        )
        try database.execute("DELETE FROM revoked WHERE account = ?", [id.rawValue])
        try database.execute("DELETE FROM accounts WHERE id = ?", [id.rawValue])
    }

    func isRemoved(_ identity: Identity) throws -> Bool {
        try database.first(
            "SELECT EXISTS (SELECT 1 FROM removed_identities WHERE issuer = ? AND subject = ?)",
            [identity.issuer, identity.subject]
        ) { try $0.flag(0) } ?? false
    }

    func addRevokedToken(_ digest: String, ends: Int64, now: Int64) throws {
        try database.execute("DELETE FROM revoked_tokens WHERE ends <= ?", [now])
        try database.execute(
            "INSERT INTO revoked_tokens (digest, ends) VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET ends = excluded.ends",
            [digest, ends]
        )
    }

    func revokedTokens() throws -> [(digest: String, ends: Int64)] {
        try database.rows("SELECT digest, ends FROM revoked_tokens") { (try $0.text(0), try $0.integer(1)) }
    }
}
