// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayStorage

/// Accounts, their identities, and revoked tokens.
extension SQLiteTransaction {
    func accounts() throws -> [AccountRow] { try accounts("", []) }
    func account(_ id: AccountID) throws -> AccountRow? { try accounts("WHERE id = ?", [id.rawValue]).first }

    private func accounts(_ condition: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [AccountRow] {
        let rows = try Row.fetchAll(
            statement(
                """
                SELECT id, name, disabled, created, (SELECT count(*) FROM endpoints WHERE account = accounts.id)
                FROM accounts \(condition) ORDER BY created, id
                """
            ),
            arguments: .bound(arguments)
        )
        return try rows.map { row in
            let id: String = row[0]
            let identities = try Row.fetchAll(
                statement("SELECT issuer, subject, added, linker FROM identities WHERE account = ? ORDER BY issuer, subject"),
                arguments: .bound(id)
            )
            return AccountRow(
                id: AccountID(id),
                name: row[1],
                isDisabled: row[2],
                created: row[3],
                identities: try identities.map { row in
                    AccountIdentity(
                        Identity(issuer: row[0], subject: row[1]),
                        linker: row.hasNull(atIndex: 3) ? nil : try row.endpoint(at: 3),
                        added: row[2]
                    )
                },
                endpoints: row[4]
            )
        }
    }

    func isDisabled(_ id: AccountID) throws -> Bool {
        try Bool.fetchOne(statement("SELECT disabled FROM accounts WHERE id = ?"), arguments: .bound(id.rawValue)) ?? false
    }

    func name(of id: AccountID) throws -> String? {
        try String.fetchOne(statement("SELECT name FROM accounts WHERE id = ?"), arguments: .bound(id.rawValue))
    }

    func setName(_ name: String, of id: AccountID) throws {
        let holder = try String.fetchOne(statement("SELECT id FROM accounts WHERE name = ?"), arguments: .bound(name))
        guard holder == nil || holder == id.rawValue else { throw AccountNameTaken() }
        try run("UPDATE accounts SET name = ? WHERE id = ?", [name, id.rawValue])
    }

    func setDisabled(_ isDisabled: Bool, of id: AccountID) throws {
        try run("UPDATE accounts SET disabled = ? WHERE id = ?", [isDisabled, id.rawValue])
    }

    func add(_ identity: AccountIdentity, to id: AccountID) throws {
        let (issuer, subject) = (identity.identity.issuer, identity.identity.subject)
        try run(
            "INSERT INTO identities (issuer, subject, account, linker, added) VALUES (?, ?, ?, ?, ?)",
            [issuer, subject, id.rawValue, identity.linker?.column, identity.added]
        )
        try run("DELETE FROM removed_identities WHERE issuer = ? AND subject = ?", [issuer, subject])
    }

    func remove(_ identity: Identity, from id: AccountID) throws {
        try run(
            "DELETE FROM identities WHERE issuer = ? AND subject = ? AND account = ?",
            [identity.issuer, identity.subject, id.rawValue]
        )
    }

    func removeAccount(_ id: AccountID, time: Int64) throws {
        try run(
            """
            INSERT OR REPLACE INTO removed_identities (issuer, subject, removed)
            SELECT issuer, subject, ? FROM identities WHERE account = ?
            """,
            [time, id.rawValue]
        )
        try run("DELETE FROM revoked WHERE account = ?", [id.rawValue])
        try run("DELETE FROM accounts WHERE id = ?", [id.rawValue])
    }

    func isRemoved(_ identity: Identity) throws -> Bool {
        try Bool.fetchOne(
            statement("SELECT EXISTS (SELECT 1 FROM removed_identities WHERE issuer = ? AND subject = ?)"),
            arguments: .bound(identity.issuer, identity.subject)
        ) ?? false
    }

    func addRevokedToken(_ digest: String, ends: Int64, now: Int64) throws {
        try run("DELETE FROM revoked_tokens WHERE ends <= ?", [now])
        try run("INSERT OR REPLACE INTO revoked_tokens (digest, ends) VALUES (?, ?)", [digest, ends])
    }

    func revokedTokens() throws -> [(digest: String, ends: Int64)] {
        try Row.fetchAll(statement("SELECT digest, ends FROM revoked_tokens")).map { ($0[0], $0[1]) }
    }
}
