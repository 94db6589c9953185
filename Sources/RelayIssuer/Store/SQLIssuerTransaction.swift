// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
package import RelayStorage

extension SQLDatabase {
    /// The issuer's rows.
    package var issuerTransaction: any IssuerTransaction { SQLIssuerTransaction(database: self) }
    /// The issuer's rows of attempts.
    package var attemptTransaction: any AttemptTransaction { SQLIssuerTransaction(database: self) }
}

/// The issuer's rows in a database.
struct SQLIssuerTransaction<Database: SQLDatabase>: IssuerTransaction {
    let database: Database

    // MARK: Users

    func insert(_ user: IssuerUser, key: String, now: Milliseconds) throws {
        try database.execute(
            "INSERT INTO \"user\" (subject, name, key, created) VALUES (?, ?, ?, ?)",
            [user.subject, user.name, key, now.count]
        )
    }

    func users() throws -> [IssuerUser] {
        try database.rows("SELECT subject, name FROM \"user\" ORDER BY created, subject", readUser)
    }

    func hasUser(_ subject: String) throws -> Bool {
        try database.first("SELECT EXISTS (SELECT 1 FROM \"user\" WHERE subject = ?)", [subject]) { try $0.flag(0) } ?? false
    }

    func rename(_ subject: String, to name: AccountName) throws {
        try database.execute("UPDATE \"user\" SET name = ?, key = ? WHERE subject = ?", [name.text, name.key, subject])
    }

    func removeUser(_ subject: String) throws {
        try database.execute("DELETE FROM \"user\" WHERE subject = ?", [subject])
    }

    // MARK: Invitations

    func insert(_ invitation: Invitation) throws {
        try database.execute(
            "INSERT INTO invitation (code, subject, inviter, inviter_key, expires) VALUES (?, ?, ?, ?, ?)",
            [
                Data(invitation.code.bytes),
                invitation.subject,
                invitation.inviter.map { "\($0.endpoint)" },
                invitation.inviter?.key,
                invitation.expires.count,
            ]
        )
    }

    func openInvitations(of subject: String, now: Milliseconds) throws -> Int {
        try count("SELECT count(*) FROM invitation WHERE subject = ? AND redeemed = 0 AND expires > ?", [subject, now.count])
    }

    func invitation(_ code: Digest256) throws -> Invitation? {
        try database.first(
            "SELECT subject, inviter, inviter_key, expires, redeemed, key, login FROM invitation WHERE code = ?",
            [Data(code.bytes)]
        ) { row in
            var inviter: Invitation.Inviter?
            if let key = try row.optional(2, row.text), let endpoint = EndpointID(try row.text(1)) {
                inviter = .init(key: key, endpoint: endpoint)
            }
            var invitation = Invitation(code: code, subject: try row.text(0), inviter: inviter, expires: try row.time(3))
            if try row.flag(4) { invitation.redemption = try Self.redemption(row, 5) }
            return invitation
        }
    }

    /// Reads two columns, key and login.
    static func redemption(_ row: Database.ResultRow, _ column: Int) throws -> Invitation.Redemption {
        .init(key: try row.optional(column, row.text), family: try row.optional(column + 1, row.bytes).map { FamilyID($0) })
    }

    func removeOpenInvitations(madeBy key: String) throws {
        try database.execute("DELETE FROM invitation WHERE inviter_key = ? AND redeemed = 0", [key])
    }

    func redeem(_ code: Digest256, _ redemption: Invitation.Redemption) throws {
        try database.execute(
            "UPDATE invitation SET redeemed = 1, key = ?, login = ? WHERE code = ?",
            [redemption.key, redemption.family.map { Data($0.bytes) }, Data(code.bytes)]
        )
    }

    // MARK: Logins

    func insert(_ family: RefreshFamily) throws {
        try database.execute(
            """
            INSERT INTO login (id, session, subject, client, device, scopes, key, invited_by, created, rotated, current, revoked)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                Data(family.id.bytes),
                family.id.session,
                family.subject,
                family.client,
                family.device,
                family.scopes.description,
                family.key,
                family.invitedBy.map { "\($0)" },
                family.created.count,
                family.rotated.count,
                family.current,
                family.revoked?.count,
            ]
        )
    }

    func family(_ id: FamilyID) throws -> RefreshFamily? {
        try families("id = ?", [Data(id.bytes)]).first
    }

    func family(session: String) throws -> RefreshFamily? {
        try families("session = ?", [session]).first
    }

    func openLogins(boundTo key: String, session: String?) throws -> [RefreshFamily] {
        try families("revoked IS NULL AND (key = ? OR session = ?)", [key, session])
    }

    func openLogins(of subject: String) throws -> [RefreshFamily] { try families("revoked IS NULL AND subject = ?", [subject]) }

    func openLogins(of subject: String, upTo count: Int) throws -> [RefreshFamily] {
        try families("revoked IS NULL AND subject = ? ORDER BY rotated DESC, id LIMIT ?", [subject, count])
    }

    func openLogins(of subject: String, beyond count: Int) throws -> [RefreshFamily] {
        try families("revoked IS NULL AND subject = ? ORDER BY rotated DESC, id LIMIT 9223372036854775807 OFFSET ?", [subject, count])
    }

    func forgetRevokedLogins(of subject: String, before time: Milliseconds) throws {
        try database.execute(
            """
            DELETE FROM login WHERE subject = ? AND revoked <= ? AND id NOT IN
            (SELECT id FROM login WHERE subject = ? AND revoked IS NOT NULL ORDER BY revoked DESC, id LIMIT ?)
            """,
            [subject, time.count, subject, RefreshFamily.maximumRevoked]
        )
    }

    func endpointRevoked(boundTo key: String, session: String?) throws {
        try database.execute("UPDATE login SET endpoint_revoked = 1 WHERE key = ? OR session = ?", [key, session])
    }

    private func families(_ condition: String, _ values: [(any SQLParameter)?]) throws -> [RefreshFamily] {
        try database.rows(
            """
            SELECT id, subject, client, device, scopes, key, invited_by, created, rotated, current, revoked, endpoint_revoked, link_reused
            FROM login WHERE \(condition)
            """,
            values
        ) { row in
            guard let scopes = Scopes(parsing: try row.text(4)) else { return nil }
            return RefreshFamily(
                id: FamilyID(try row.bytes(0)),
                subject: try row.text(1),
                client: try row.text(2),
                device: try row.text(3),
                scopes: scopes,
                key: try row.optional(5, row.text),
                invitedBy: try row.optional(6, row.text).flatMap { EndpointID($0) },
                created: try row.time(7),
                rotated: try row.time(8),
                current: try row.integer(9),
                revoked: try row.optional(10, row.time),
                isOfRevokedEndpoint: try row.flag(11),
                isOfReusedLink: try row.flag(12)
            )
        }.compactMap { $0 }
    }

    func revoked(since time: Milliseconds) throws -> [RefreshFamily] { try families("revoked > ?", [time.count]) }

    func update(_ family: RefreshFamily) throws {
        try database.execute(
            "UPDATE login SET rotated = ?, current = ?, revoked = ?, link_reused = ? WHERE id = ?",
            [
                family.rotated.count,
                family.current,
                family.revoked?.count,
                family.isOfReusedLink,
                Data(family.id.bytes),
            ]
        )
    }

    func forget(before now: Milliseconds) throws {
        try forgetCodes(before: now)
        try database.execute(
            "DELETE FROM device_authorization WHERE expires <= ?",
            [now.count - DeviceAuthorization.memory]
        )
        try database.execute("DELETE FROM set_up WHERE expires <= ?", [now.count])
        try database.execute(
            "DELETE FROM web_session WHERE used <= ? OR created <= ?",
            [now.count - WebSession.idleLife, now.count - WebSession.wholeLife]
        )
        try database.execute("DELETE FROM invitation WHERE expires < ?", [now.count - Invitation.memory])
        try database.execute(
            "DELETE FROM login WHERE rotated <= ? OR created <= ?",
            [now.count - RefreshFamily.idleLife, now.count - RefreshFamily.wholeLife]
        )
    }

    // MARK: Keys

    func insert(_ key: SealedSigningKey) throws {
        try database.execute(
            "INSERT INTO signing_key (id, sealed, activates) VALUES (?, ?, ?)",
            [key.entry.id, Data(key.sealed), key.entry.activates.count]
        )
    }

    func removeKey(_ id: String) throws {
        try database.execute("DELETE FROM signing_key WHERE id = ?", [id])
    }

    func sealedKeys() throws -> [SealedSigningKey] {
        try database.rows("SELECT id, sealed, activates FROM signing_key") { row in
            SealedSigningKey(entry: .init(id: try row.text(0), activates: try row.time(2)), sealed: try row.bytes(1))
        }
    }

    func seal() throws -> [UInt8]? { try database.first("SELECT sealed FROM seal") { try $0.bytes(0) } }

    func setSeal(_ seal: [UInt8]) throws {
        try database.execute("INSERT INTO seal (one, sealed) VALUES (1, ?)", [Data(seal)])
    }

    // MARK: Rows

    func readUser(_ row: Database.ResultRow) throws -> IssuerUser { IssuerUser(subject: try row.text(0), name: try row.text(1)) }

    func count(_ sql: String, _ values: [(any SQLParameter)?]) throws -> Int { try database.first(sql, values) { try $0.count(0) } ?? 0 }
}

extension SQLRow {
    func time(_ column: Int) throws -> Milliseconds { Milliseconds(clamping: try integer(column)) }
}
