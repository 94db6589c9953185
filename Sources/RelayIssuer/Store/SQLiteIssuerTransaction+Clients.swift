// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// Clients, and what users allowed them at the pages.
extension SQLiteIssuerTransaction {
    func insert(_ client: RegisteredClient) throws {
        try db.execute(
            sql: "INSERT INTO client (id, name, redirects, created) VALUES (?, ?, ?, ?)",
            arguments: [client.id, client.name, client.redirects.map(\.text).joined(separator: " "), client.created.count]
        )
    }

    func client(_ id: String) throws -> RegisteredClient? {
        try Row.fetchOne(db, sql: "SELECT * FROM client WHERE id = ?", arguments: [id]).map { row in
            RegisteredClient(
                id: row["id"],
                name: row["name"],
                redirects: (row["redirects"] as String).split(separator: " ").compactMap { RedirectURI(String($0)) },
                created: Milliseconds(clamping: row["created"] as Int64)
            )
        }
    }

    func makeRoomForClient(now: Milliseconds) throws -> Bool {
        guard try Int.fetchOne(db, sql: "SELECT count(*) FROM client") ?? 0 >= RegisteredClient.maximum else { return true }
        try db.execute(
            sql: """
                DELETE FROM client WHERE id =
                (SELECT id FROM client WHERE used IS NULL AND created <= ? ORDER BY created, id LIMIT 1)
                """,
            arguments: [now.count - RegisteredClient.settling]
        )
        return db.changesCount > 0
    }

    func setClientUsed(_ id: String, at now: Milliseconds) throws {
        try db.execute(sql: "UPDATE client SET used = ? WHERE id = ?", arguments: [now.count, id])
    }

    func insert(_ code: AuthorizationCode) throws {
        try db.execute(
            sql: """
                INSERT INTO authorization_code (code, subject, client, redirect, challenge, scopes, expires)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                Data(code.code.bytes), code.subject, code.client, code.redirect, Data(code.challenge.bytes), code.scopes.description,
                code.expires.count,
            ]
        )
        try db.execute(
            sql: """
                DELETE FROM authorization_code WHERE subject = ?1 AND code NOT IN
                (SELECT code FROM authorization_code WHERE subject = ?1 ORDER BY expires DESC, code LIMIT ?2)
                """,
            arguments: [code.subject, AuthorizationCode.maximum]
        )
    }

    func authorizationCode(_ code: Digest256) throws -> AuthorizationCode? {
        guard let row = try Row.fetchOne(db, sql: "SELECT * FROM authorization_code WHERE code = ?", arguments: [Data(code.bytes)]),
            let challenge = Digest256(bytes: [UInt8](row["challenge"] as Data)), let scopes = Scopes(parsing: row["scopes"])
        else { return nil }
        var stored = AuthorizationCode(
            code: code,
            subject: row["subject"],
            client: row["client"],
            redirect: row["redirect"],
            challenge: challenge,
            scopes: scopes,
            expires: Milliseconds(clamping: row["expires"] as Int64)
        )
        if row["redeemed"] {
            stored.redemption = .init(key: row["key"], family: (row["login"] as Data?).map { FamilyID([UInt8]($0)) })
        }
        return stored
    }

    func redeem(authorizationCode code: Digest256, _ redemption: Invitation.Redemption) throws {
        try db.execute(
            sql: "UPDATE authorization_code SET redeemed = 1, key = ?, login = ? WHERE code = ?",
            arguments: [redemption.key, redemption.family.map { Data($0.bytes) }, Data(code.bytes)]
        )
    }

    func forgetClients(before now: Milliseconds) throws {
        try db.execute(sql: "DELETE FROM authorization_code WHERE expires <= ?", arguments: [now.count - AuthorizationCode.memory])
        try db.execute(
            sql: "DELETE FROM client WHERE used IS NULL AND created <= ? OR used <= ?",
            arguments: [now.count - RegisteredClient.unusedLife, now.count - RegisteredClient.life]
        )
    }
}
