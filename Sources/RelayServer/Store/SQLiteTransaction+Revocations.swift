// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

/// The rows of revoked endpoints.
extension SQLiteTransaction {
    private static let revocationColumns = "id, account, revoker, revocation, time, kept, thumbprint, issuer, session, logins_ended"

    private func revocation(_ row: Row) throws -> RevocationRow {
        RevocationRow(
            endpoint: try row.endpoint(at: 0),
            account: AccountID(row[1]),
            statement: try row.hasNull(atIndex: 2)
                ? nil : .init(revoker: row.endpoint(at: 2), revocation: row.bytes(at: 3)),
            time: row[4],
            isKept: row[5],
            keyThumbprint: row[6],
            login: Self.login(row, 7),
            loginsEnded: row[9]
        )
    }

    func add(_ revocation: RevocationRow) throws {
        try run(
            "INSERT INTO revoked (\(Self.revocationColumns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            [
                revocation.endpoint.column, revocation.account.rawValue, revocation.statement?.revoker.column,
                revocation.statement.map { Data($0.revocation) }, revocation.time, revocation.isKept, revocation.keyThumbprint,
                revocation.login?.issuer, revocation.login?.session, revocation.loginsEnded,
            ]
        )
    }

    func revocation(of id: EndpointID) throws -> RevocationRow? {
        try Row.fetchOne(
            statement("SELECT \(Self.revocationColumns) FROM revoked WHERE id = ?"),
            arguments: .bound(id.column)
        ).map { try revocation($0) }
    }

    func revocations(of account: AccountID) throws -> [RevocationRow] {
        try Array(
            Row.fetchCursor(
                statement("SELECT \(Self.revocationColumns) FROM revoked WHERE account = ? AND kept = 1 ORDER BY time, id"),
                arguments: .bound(account.rawValue)
            ).map { try revocation($0) }
        )
    }

    func revocationCount(of account: AccountID) throws -> Int {
        try Int.fetchOne(statement("SELECT count(*) FROM revoked WHERE account = ?"), arguments: .bound(account.rawValue)) ?? 0
    }

    func revocationsWithLogins(limit: Int) throws -> [RevocationRow] {
        try Array(
            Row.fetchCursor(
                statement("SELECT \(Self.revocationColumns) FROM revoked WHERE logins_ended = 0 ORDER BY time LIMIT ?"),
                arguments: .bound(limit)
            ).map { try revocation($0) }
        )
    }

    func loginsEnded(of id: EndpointID) throws {
        try run("DELETE FROM revoked WHERE id = ? AND kept = 0", [id.column])
        try run("UPDATE revoked SET logins_ended = 1 WHERE id = ?", [id.column])
    }
}
