// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage

// Authorizations of clients and devices, and resource servers.
extension SQLIssuerTransaction {
    func insert(_ code: AuthorizationCode) throws {
        try database.execute(
            """
            INSERT INTO authorization_code (code, subject, client, redirect, challenge, scopes, expires)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            [
                Data(code.code.bytes),
                code.subject,
                code.client,
                code.redirect,
                Data(code.challenge.bytes),
                code.scopes.description,
                code.expires.count,
            ]
        )
        try database.execute(
            """
            DELETE FROM authorization_code WHERE subject = ? AND code NOT IN
            (SELECT code FROM authorization_code WHERE subject = ? ORDER BY expires DESC, code LIMIT ?)
            """,
            [code.subject, code.subject, AuthorizationCode.maximum]
        )
    }

    func authorizationCode(_ code: Digest256) throws -> AuthorizationCode? {
        try database.first(
            """
            SELECT subject, client, redirect, challenge, scopes, expires, redeemed, key, login FROM authorization_code WHERE code = ?
            """,
            [Data(code.bytes)]
        ) { row in
            guard let scopes = Scopes(parsing: try row.text(4)) else { return nil }
            var stored = AuthorizationCode(
                code: code,
                subject: try row.text(0),
                client: try row.text(1),
                redirect: try row.text(2),
                challenge: try row.digest(3),
                scopes: scopes,
                expires: try row.time(5)
            )
            if try row.flag(6) { stored.redemption = try Self.redemption(row, 7) }
            return stored
        } ?? nil
    }

    func redeem(authorizationCode code: Digest256, _ redemption: Invitation.Redemption) throws {
        try database.execute(
            "UPDATE authorization_code SET redeemed = 1, key = ?, login = ? WHERE code = ?",
            [redemption.key, redemption.family.map { Data($0.bytes) }, Data(code.bytes)]
        )
    }

    // MARK: Pending devices

    func insert(_ authorization: DeviceAuthorization, from client: ClientNetworks) throws {
        try database.execute(
            """
            INSERT INTO device_authorization (code, user_code, client, scopes, device, platform, expires, network, address)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                Data(authorization.code.bytes),
                Data(authorization.userCode.bytes),
                authorization.client,
                authorization.scopes.description,
                authorization.device,
                authorization.platform,
                authorization.expires.count,
                client.largest,
                client.smallest,
            ]
        )
    }

    func deviceAuthorization(_ code: Digest256) throws -> DeviceAuthorization? { try deviceAuthorization("code", code) }

    func deviceAuthorization(userCode: Digest256) throws -> DeviceAuthorization? { try deviceAuthorization("user_code", userCode) }

    private func deviceAuthorization(_ column: String, _ digest: Digest256) throws -> DeviceAuthorization? {
        try database.first(
            """
            SELECT code, user_code, client, scopes, device, platform, expires, decided, subject FROM device_authorization
            WHERE \(column) = ?
            """,
            [digest.column]
        ) { row in
            guard let scopes = Scopes(parsing: try row.text(3)) else { return nil }
            var found = DeviceAuthorization(
                code: try row.digest(0),
                userCode: try row.digest(1),
                client: try row.text(2),
                scopes: scopes,
                device: try row.text(4),
                platform: try row.text(5),
                expires: try row.time(6)
            )
            if try row.flag(7) { found.decision = try row.optional(8, row.text).map { .allowed(subject: $0) } ?? .denied }
            return found
        } ?? nil
    }

    func makeRoomForDeviceAuthorization(at now: Milliseconds) throws -> Bool {
        let waiting = "FROM device_authorization WHERE decided = 0 AND expires > ?"
        let all = try count("SELECT count(*) FROM device_authorization WHERE expires > ?", [now.count])
        guard all >= DeviceAuthorization.maximum else { return true }
        func largest(_ sql: String, _ values: [(any SQLParameter)?]) throws -> String? {
            try database.first(sql, values) { try $0.text(0) }
        }
        guard
            let network = try largest("SELECT network \(waiting) GROUP BY network ORDER BY count(*) DESC LIMIT 1", [now.count]),
            let address = try largest(
                "SELECT address \(waiting) AND network = ? GROUP BY address ORDER BY count(*) DESC LIMIT 1",
                [now.count, network]
            )
        else { return false }
        return try database.changes(
            """
            DELETE FROM device_authorization WHERE code =
            (SELECT code \(waiting) AND network = ? AND address = ? ORDER BY expires LIMIT 1)
            """,
            [now.count, network, address]
        ) > 0
    }

    func decide(_ code: Digest256, _ decision: DeviceAuthorization.Decision) throws {
        let subject: String? = if case .allowed(let subject) = decision { subject } else { nil }
        try database.execute(
            "UPDATE device_authorization SET decided = ?, subject = ? WHERE code = ?",
            [decision != .pending, subject, Data(code.bytes)]
        )
    }

    func removeDeviceAuthorization(_ code: Digest256) throws {
        try database.execute("DELETE FROM device_authorization WHERE code = ?", [Data(code.bytes)])
    }

    // MARK: Resource servers

    func setResourceServer(_ name: String, secret: Digest256) throws {
        try database.execute(
            "INSERT INTO resource_server (name, secret) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET secret = excluded.secret",
            [name, Data(secret.bytes)]
        )
    }

    func removeResourceServer(_ name: String) throws -> Bool {
        try database.changes("DELETE FROM resource_server WHERE name = ?", [name]) > 0
    }

    func resourceServers() throws -> [String] { try database.rows("SELECT name FROM resource_server ORDER BY name") { try $0.text(0) } }

    func secret(ofResourceServer name: String) throws -> Digest256? {
        try database.first("SELECT secret FROM resource_server WHERE name = ?", [name]) { try $0.digest(0) }
    }

    func forgetCodes(before now: Milliseconds) throws {
        try database.execute("DELETE FROM authorization_code WHERE expires <= ?", [now.count - AuthorizationCode.memory])
    }
}
