// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage

/// The rows of revoked endpoints.
extension SQLTransaction {
    static var revocationColumns: String {
        "id, account, revoker, revocation, time, kept, thumbprint, issuer, session, logins_ended"
    }

    func revocation(_ row: Database.ResultRow) throws -> RevocationRow {
        RevocationRow(
            endpoint: try row.endpoint(0),
            account: AccountID(try row.text(1)),
            statement: try row.optional(2, row.endpoint).map { .init(revoker: $0, revocation: try row.bytes(3)) },
            time: try row.integer(4),
            isKept: try row.flag(5),
            keyThumbprint: try row.text(6),
            login: try Self.login(row, 7),
            loginsEnded: try row.flag(9)
        )
    }

    func add(_ revocation: RevocationRow) throws {
        try database.execute(
            "INSERT INTO revoked (\(Self.revocationColumns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            [
                revocation.endpoint.column, revocation.account.rawValue, revocation.statement?.revoker.column,
                revocation.statement.map { Data($0.revocation) }, revocation.time, revocation.isKept, revocation.keyThumbprint,
                revocation.login?.issuer, revocation.login?.session, revocation.loginsEnded,
            ]
        )
    }

    func revocation(of id: EndpointID) throws -> RevocationRow? {
        try database.first("SELECT \(Self.revocationColumns) FROM revoked WHERE id = ?", [id.column], revocation)
    }

    func revocations(of account: AccountID) throws -> [RevocationRow] {
        try database.rows(
            "SELECT \(Self.revocationColumns) FROM revoked WHERE account = ? AND kept = 1 ORDER BY time, id",
            [account.rawValue],
            revocation
        )
    }

    func revocationCount(of account: AccountID) throws -> Int {
        try database.first("SELECT count(*) FROM revoked WHERE account = ?", [account.rawValue]) { try $0.count(0) } ?? 0
    }

    func revocationsWithLogins(in scope: AccountScope, limit: Int) throws -> [RevocationRow] {
        let (condition, values) = scope.condition(on: "revoked")
        return try database.rows(
            "SELECT \(Self.revocationColumns) FROM revoked WHERE logins_ended = 0 \(condition) ORDER BY time LIMIT ?",
            values + [limit],
            revocation
        )
    }

    func loginsEnded(of id: EndpointID) throws {
        try database.execute("DELETE FROM revoked WHERE id = ? AND kept = 0", [id.column])
        try database.execute("UPDATE revoked SET logins_ended = 1 WHERE id = ?", [id.column])
    }
}
