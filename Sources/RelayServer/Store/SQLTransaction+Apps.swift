// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayStorage

/// App identities and push credentials.
extension SQLTransaction {
    func appIdentities() throws -> [AppIdentity] { try appIdentities("", []) }
    func appIdentity(_ id: String) throws -> AppIdentity? { try appIdentities("WHERE id = ?", [id]).first }

    private func appIdentities(_ condition: String, _ values: [(any SQLParameter)?]) throws -> [AppIdentity] {
        let rows = try database.rows(
            "SELECT id, proof, verified, created FROM app_identities \(condition) ORDER BY id",
            values
        ) { row in
            AppIdentity(
                id: try row.text(0),
                proof: try row.text(1),
                verified: try row.optional(2, row.integer),
                created: try row.integer(3)
            )
        }
        return try rows.map { row in
            let apps = try database.rows(
                "SELECT platform, app, proven FROM apps WHERE identity = ? ORDER BY platform, app",
                [row.id]
            ) { (platform: try $0.text(0), app: try $0.text(1), isProven: try $0.flag(2)) }
            // A platform of a later version is left out.
            let known = apps.compactMap { row in
                AppIdentity.App.Platform(rawValue: row.platform).map { (app: AppIdentity.App($0, id: row.app), isProven: row.isProven) }
            }
            var identity = row
            identity.apps = known.map(\.app)
            identity.unproven = Set(known.filter { !$0.isProven }.map(\.app))
            return identity
        }
    }

    func put(_ identity: AppIdentity) throws {
        try database.execute(
            """
            INSERT INTO app_identities (id, proof, verified, created) VALUES (?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET proof = excluded.proof, verified = excluded.verified
            """,
            [identity.id, identity.proof, identity.verified, identity.created]
        )
        try database.execute("DELETE FROM apps WHERE identity = ?", [identity.id])
        for app in identity.apps {
            try database.execute(
                "INSERT INTO apps (identity, platform, app, proven) VALUES (?, ?, ?, ?)",
                [identity.id, app.platform.rawValue, app.id, !identity.unproven.contains(app)]
            )
        }
    }

    func removeAppIdentity(_ id: String) throws { try database.execute("DELETE FROM app_identities WHERE id = ?", [id]) }

    func credentials() throws -> [CredentialRow] {
        try database.rows("SELECT id, identity, type, label, sealed, created FROM push_credentials ORDER BY created, id") { row in
            CredentialRow(
                id: try row.text(0),
                identity: try row.text(1),
                type: try row.text(2),
                label: try row.text(3),
                sealed: try row.bytes(4),
                created: try row.integer(5)
            )
        }
    }

    func add(_ credential: CredentialRow) throws {
        try database.execute(
            "INSERT INTO push_credentials (id, identity, type, label, sealed, created) VALUES (?, ?, ?, ?, ?, ?)",
            [credential.id, credential.identity, credential.type, credential.label, Data(credential.sealed), credential.created]
        )
    }

    func removeCredential(_ id: String) throws { try database.execute("DELETE FROM push_credentials WHERE id = ?", [id]) }

    // MARK: Tokens. A database of one node has no table for them.

    func pushToken(of credential: String) throws -> PushTokenRow? {
        try database.first("SELECT version, sealed FROM push_token WHERE credential = ?", [credential]) { row in
            PushTokenRow(version: try row.integer(0), sealed: try row.bytes(1))
        }
    }

    func replacePushToken(of credential: String, version: Int64, by sealed: [UInt8]) throws {
        // A node that renews it at the same time waits for this row.
        try database.execute(
            """
            INSERT INTO push_token (credential, version, sealed) VALUES (?, ?, ?)
            ON CONFLICT (credential) DO UPDATE SET version = excluded.version, sealed = excluded.sealed
            WHERE push_token.version = excluded.version - 1
            """,
            [credential, version + 1, Data(sealed)]
        )
    }
}
