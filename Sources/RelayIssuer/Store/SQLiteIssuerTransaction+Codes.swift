// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

// Authorizations of clients and devices, and resource servers.
extension SQLiteIssuerTransaction {
    func insert(_ code: AuthorizationCode) throws {
        try db.execute(
            sql: """
                INSERT INTO authorization_code (code, subject, client, redirect, challenge, scopes, expires)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: .bound(
                Data(code.code.bytes),
                code.subject,
                code.client,
                code.redirect,
                Data(code.challenge.bytes),
                code.scopes.description,
                code.expires.count
            )
        )
        try db.execute(
            sql: """
                DELETE FROM authorization_code WHERE subject = ?1 AND code NOT IN
                (SELECT code FROM authorization_code WHERE subject = ?1 ORDER BY expires DESC, code LIMIT ?2)
                """,
            arguments: .bound(code.subject, AuthorizationCode.maximum)
        )
    }

    func authorizationCode(_ code: Digest256) throws -> AuthorizationCode? {
        guard let row = try Row.fetchOne(db, sql: "SELECT * FROM authorization_code WHERE code = ?", arguments: .bound(Data(code.bytes))),
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
            arguments: .bound(redemption.key, redemption.family.map { Data($0.bytes) }, Data(code.bytes))
        )
    }

    // MARK: Pending devices

    func insert(_ authorization: DeviceAuthorization, from client: ClientNetworks) throws {
        try db.execute(
            sql: """
                INSERT INTO device_authorization (code, user_code, client, scopes, device, platform, expires, network, address)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: .bound(
                Data(authorization.code.bytes),
                Data(authorization.userCode.bytes),
                authorization.client,
                authorization.scopes.description,
                authorization.device,
                authorization.platform,
                authorization.expires.count,
                client.largest,
                client.smallest
            )
        )
    }

    func deviceAuthorization(_ code: Digest256) throws -> DeviceAuthorization? { try deviceAuthorization("code", code) }

    func deviceAuthorization(userCode: Digest256) throws -> DeviceAuthorization? { try deviceAuthorization("user_code", userCode) }

    private func deviceAuthorization(_ column: String, _ digest: Digest256) throws -> DeviceAuthorization? {
        guard
            let row = try Row.fetchOne(
                db,
                sql: "SELECT * FROM device_authorization WHERE \(column) = ?",
                arguments: .bound(digest.column)
            ), let code = Digest256(bytes: [UInt8](row["code"] as Data)),
            let userCode = Digest256(bytes: [UInt8](row["user_code"] as Data)),
            let scopes = Scopes(parsing: row["scopes"])
        else { return nil }
        var found = DeviceAuthorization(
            code: code,
            userCode: userCode,
            client: row["client"],
            scopes: scopes,
            device: row["device"],
            platform: row["platform"],
            expires: Milliseconds(clamping: row["expires"] as Int64)
        )
        if row["decided"] { found.decision = (row["subject"] as String?).map { .allowed(subject: $0) } ?? .denied }
        return found
    }

    func makeRoomForDeviceAuthorization(at now: Milliseconds) throws -> Bool {
        let waiting = "FROM device_authorization WHERE decided = 0 AND expires > ?"
        let count = "SELECT count(*) FROM device_authorization WHERE expires > ?"
        guard try Int.fetchOne(db, sql: count, arguments: .bound(now.count)) ?? 0 >= DeviceAuthorization.maximum else { return true }
        guard
            let network = try String.fetchOne(
                db,
                sql: "SELECT network \(waiting) GROUP BY network ORDER BY count(*) DESC LIMIT 1",
                arguments: .bound(now.count)
            ),
            let address = try String.fetchOne(
                db,
                sql: "SELECT address \(waiting) AND network = ? GROUP BY address ORDER BY count(*) DESC LIMIT 1",
                arguments: .bound(now.count, network)
            )
        else { return false }
        try db.execute(
            sql: """
                DELETE FROM device_authorization WHERE code =
                (SELECT code \(waiting) AND network = ? AND address = ? ORDER BY expires LIMIT 1)
                """,
            arguments: .bound(now.count, network, address)
        )
        return db.changesCount > 0
    }

    func decide(_ code: Digest256, _ decision: DeviceAuthorization.Decision) throws {
        let subject: String? = if case .allowed(let subject) = decision { subject } else { nil }
        try db.execute(
            sql: "UPDATE device_authorization SET decided = ?, subject = ? WHERE code = ?",
            arguments: .bound(decision != .pending, subject, Data(code.bytes))
        )
    }

    func removeDeviceAuthorization(_ code: Digest256) throws {
        try db.execute(sql: "DELETE FROM device_authorization WHERE code = ?", arguments: .bound(Data(code.bytes)))
    }

    // MARK: Resource servers

    func setResourceServer(_ name: String, secret: Digest256) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO resource_server (name, secret) VALUES (?, ?)",
            arguments: .bound(name, Data(secret.bytes))
        )
    }

    func removeResourceServer(_ name: String) throws -> Bool {
        try db.execute(sql: "DELETE FROM resource_server WHERE name = ?", arguments: .bound(name))
        return db.changesCount > 0
    }

    func resourceServers() throws -> [String] { try String.fetchAll(db, sql: "SELECT name FROM resource_server ORDER BY name") }

    func secret(ofResourceServer name: String) throws -> Digest256? {
        try Data.fetchOne(db, sql: "SELECT secret FROM resource_server WHERE name = ?", arguments: .bound(name))
            .flatMap { Digest256(bytes: [UInt8]($0)) }
    }

    func forgetCodes(before now: Milliseconds) throws {
        try db.execute(sql: "DELETE FROM authorization_code WHERE expires <= ?", arguments: .bound(now.count - AuthorizationCode.memory))
    }
}
