// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

/// The issuer's rows in SQLite.
struct SQLiteIssuerTransaction: IssuerTransaction {
    let db: Database

    // MARK: Users

    func insert(_ user: IssuerUser, key: String, now: Milliseconds) throws {
        try db.execute(
            sql: "INSERT INTO user (subject, name, key, created) VALUES (?, ?, ?, ?)",
            arguments: .bound(user.subject, user.name, key, now.count)
        )
    }

    func users() throws -> [IssuerUser] {
        try Row.fetchAll(db, sql: "SELECT subject, name FROM user ORDER BY created, subject")
            .map { IssuerUser(subject: $0["subject"], name: $0["name"]) }
    }

    func hasUser(_ subject: String) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM user WHERE subject = ?)", arguments: .bound(subject)) ?? false
    }

    func rename(_ subject: String, to name: AccountName) throws {
        try db.execute(sql: "UPDATE user SET name = ?, key = ? WHERE subject = ?", arguments: .bound(name.text, name.key, subject))
    }

    func removeUser(_ subject: String) throws {
        try db.execute(sql: "DELETE FROM user WHERE subject = ?", arguments: .bound(subject))
    }

    // MARK: Invitations

    func insert(_ invitation: Invitation) throws {
        try db.execute(
            sql: "INSERT INTO invitation (code, subject, inviter, inviter_key, expires) VALUES (?, ?, ?, ?, ?)",
            arguments: .bound(
                Data(invitation.code.bytes),
                invitation.subject,
                invitation.inviter.map { "\($0.endpoint)" },
                invitation.inviter?.key,
                invitation.expires.count
            )
        )
    }

    func openInvitations(of subject: String, now: Milliseconds) throws -> Int {
        try Int.fetchOne(
            db,
            sql: "SELECT count(*) FROM invitation WHERE subject = ? AND redeemed = 0 AND expires > ?",
            arguments: .bound(subject, now.count)
        ) ?? 0
    }

    func invitation(_ code: Digest256) throws -> Invitation? {
        guard let row = try Row.fetchOne(db, sql: "SELECT * FROM invitation WHERE code = ?", arguments: .bound(Data(code.bytes))) else {
            return nil
        }
        var inviter: Invitation.Inviter?
        if let key = row["inviter_key"] as String?, let endpoint = EndpointID(row["inviter"]) {
            inviter = .init(key: key, endpoint: endpoint)
        }
        var invitation = Invitation(
            code: code,
            subject: row["subject"],
            inviter: inviter,
            expires: Milliseconds(clamping: row["expires"] as Int64)
        )
        if row["redeemed"] {
            invitation.redemption = .init(key: row["key"], family: (row["login"] as Data?).map { FamilyID([UInt8]($0)) })
        }
        return invitation
    }

    func removeOpenInvitations(madeBy key: String) throws {
        try db.execute(sql: "DELETE FROM invitation WHERE inviter_key = ? AND redeemed = 0", arguments: .bound(key))
    }

    func redeem(_ code: Digest256, _ redemption: Invitation.Redemption) throws {
        try db.execute(
            sql: "UPDATE invitation SET redeemed = 1, key = ?, login = ? WHERE code = ?",
            arguments: .bound(redemption.key, redemption.family.map { Data($0.bytes) }, Data(code.bytes))
        )
    }

    // MARK: Logins

    func insert(_ family: RefreshFamily) throws {
        try db.execute(
            sql: """
                INSERT INTO login (id, session, subject, client, device, scopes, key, invited_by, created, rotated, current, revoked)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: .bound(
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
                family.revoked?.count
            )
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
        try families("revoked IS NULL AND subject = ? ORDER BY rotated DESC, id LIMIT -1 OFFSET ?", [subject, count])
    }

    func forgetRevokedLogins(of subject: String, before time: Milliseconds) throws {
        try db.execute(
            sql: """
                DELETE FROM login WHERE subject = ?1 AND revoked <= ?2 AND id NOT IN
                (SELECT id FROM login WHERE subject = ?1 AND revoked IS NOT NULL ORDER BY revoked DESC, id LIMIT ?3)
                """,
            arguments: .bound(subject, time.count, RefreshFamily.maximumRevoked)
        )
    }

    func endpointRevoked(boundTo key: String, session: String?) throws {
        try db.execute(sql: "UPDATE login SET endpoint_revoked = 1 WHERE key = ? OR session = ?", arguments: .bound(key, session))
    }

    private func families(_ condition: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [RefreshFamily] {
        try Row.fetchAll(db, sql: "SELECT * FROM login WHERE \(condition)", arguments: .bound(arguments)).compactMap { row in
            guard let scopes = Scopes(parsing: row["scopes"]) else { return nil }
            return RefreshFamily(
                id: FamilyID([UInt8](row["id"] as Data)),
                subject: row["subject"],
                client: row["client"],
                device: row["device"],
                scopes: scopes,
                key: row["key"],
                invitedBy: (row["invited_by"] as String?).flatMap { EndpointID($0) },
                created: Milliseconds(clamping: row["created"] as Int64),
                rotated: Milliseconds(clamping: row["rotated"] as Int64),
                current: row["current"],
                revoked: (row["revoked"] as Int64?).map { Milliseconds(clamping: $0) },
                isOfRevokedEndpoint: row["endpoint_revoked"],
                isOfReusedLink: row["link_reused"]
            )
        }
    }

    func revoked(since time: Milliseconds) throws -> [RefreshFamily] { try families("revoked > ?", [time.count]) }

    func update(_ family: RefreshFamily) throws {
        try db.execute(
            sql: "UPDATE login SET rotated = ?, current = ?, revoked = ?, link_reused = ? WHERE id = ?",
            arguments: .bound(
                family.rotated.count,
                family.current,
                family.revoked?.count,
                family.isOfReusedLink,
                Data(family.id.bytes)
            )
        )
    }

    func forget(before now: Milliseconds) throws {
        try forgetCodes(before: now)
        try db.execute(
            sql: "DELETE FROM device_authorization WHERE expires <= ?",
            arguments: .bound(now.count - DeviceAuthorization.memory)
        )
        try db.execute(sql: "DELETE FROM set_up WHERE expires <= ?", arguments: .bound(now.count))
        try db.execute(
            sql: "DELETE FROM web_session WHERE used <= ? OR created <= ?",
            arguments: .bound(now.count - WebSession.idleLife, now.count - WebSession.wholeLife)
        )
        try db.execute(sql: "DELETE FROM invitation WHERE expires < ?", arguments: .bound(now.count - Invitation.memory))
        try db.execute(
            sql: "DELETE FROM login WHERE rotated <= ? OR created <= ?",
            arguments: .bound(now.count - RefreshFamily.idleLife, now.count - RefreshFamily.wholeLife)
        )
    }

    // MARK: Keys

    func insert(_ key: SealedSigningKey) throws {
        try db.execute(
            sql: "INSERT INTO signing_key (id, sealed, activates) VALUES (?, ?, ?)",
            arguments: .bound(key.entry.id, Data(key.sealed), key.entry.activates.count)
        )
    }

    func removeKey(_ id: String) throws {
        try db.execute(sql: "DELETE FROM signing_key WHERE id = ?", arguments: .bound(id))
    }

    func sealedKeys() throws -> [SealedSigningKey] {
        try Row.fetchAll(db, sql: "SELECT id, sealed, activates FROM signing_key").map { row in
            SealedSigningKey(
                entry: .init(id: row["id"], activates: Milliseconds(clamping: row["activates"] as Int64)),
                sealed: [UInt8](row["sealed"] as Data)
            )
        }
    }

    func seal() throws -> [UInt8]? { try Data.fetchOne(db, sql: "SELECT sealed FROM seal").map { [UInt8]($0) } }

    func setSeal(_ seal: [UInt8]) throws {
        try db.execute(sql: "INSERT INTO seal (one, sealed) VALUES (1, ?)", arguments: .bound(Data(seal)))
    }
}
