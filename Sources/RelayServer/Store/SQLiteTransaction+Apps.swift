// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayStorage

/// App identities and push credentials.
extension SQLiteTransaction {
    func appIdentities() throws -> [AppIdentity] { try appIdentities("", []) }
    func appIdentity(_ id: String) throws -> AppIdentity? { try appIdentities("WHERE id = ?", [id]).first }

    private func appIdentities(_ condition: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [AppIdentity] {
        let rows = try Row.fetchAll(
            statement("SELECT id, proof, verified, created FROM app_identities \(condition) ORDER BY id"),
            arguments: .bound(arguments)
        )
        return try rows.map { row in
            let id: String = row[0]
            let apps = try Row.fetchAll(
                statement("SELECT platform, app, proven FROM apps WHERE identity = ? ORDER BY platform, app"),
                arguments: .bound(id)
            )
            // A platform of a later version is left out.
            let known = apps.compactMap { row in
                AppIdentity.App.Platform(rawValue: row[0]).map { (app: AppIdentity.App($0, id: row[1]), isProven: row[2] as Bool) }
            }
            return AppIdentity(
                id: id,
                apps: known.map(\.app),
                unproven: Set(known.filter { !$0.isProven }.map(\.app)),
                proof: row[1],
                verified: row[2],
                created: row[3]
            )
        }
    }

    func put(_ identity: AppIdentity) throws {
        try run(
            """
            INSERT INTO app_identities (id, proof, verified, created) VALUES (?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET proof = excluded.proof, verified = excluded.verified
            """,
            [identity.id, identity.proof, identity.verified, identity.created]
        )
        try run("DELETE FROM apps WHERE identity = ?", [identity.id])
        for app in identity.apps {
            try run(
                "INSERT INTO apps (identity, platform, app, proven) VALUES (?, ?, ?, ?)",
                [identity.id, app.platform.rawValue, app.id, !identity.unproven.contains(app)]
            )
        }
    }

    func removeAppIdentity(_ id: String) throws { try run("DELETE FROM app_identities WHERE id = ?", [id]) }

    func credentials() throws -> [CredentialRow] {
        try Row.fetchAll(statement("SELECT id, identity, type, label, sealed, created FROM push_credentials ORDER BY created, id")).map {
            CredentialRow(
                id: $0[0],
                identity: $0[1],
                type: $0[2],
                label: $0[3],
                sealed: try $0.bytes(at: 4),
                created: $0[5]
            )
        }
    }

    func add(_ credential: CredentialRow) throws {
        try run(
            "INSERT INTO push_credentials (id, identity, type, label, sealed, created) VALUES (?, ?, ?, ?, ?, ?)",
            [credential.id, credential.identity, credential.type, credential.label, Data(credential.sealed), credential.created]
        )
    }

    func removeCredential(_ id: String) throws { try run("DELETE FROM push_credentials WHERE id = ?", [id]) }
}
