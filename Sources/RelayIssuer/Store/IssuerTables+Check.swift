// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
package import RelayStorage

/// How the rows of the issuer's tables are decoded.
extension SQLDatabase {
    /// - Parameter master: It opens what is sealed.
    package func issuerChecks(with master: MasterKey) -> [TableCheck<ResultRow>] {
        func isScopes(_ text: String) -> Bool { Scopes(parsing: text) != nil }
        func check(_ isWhole: Bool) throws { guard isWhole else { throw ColumnError() } }
        func checkRedemption(_ row: ResultRow, _ column: Int) throws {
            try row.check(integers: column)
            _ = try SQLIssuerTransaction<Self>.redemption(row, column + 1)
        }
        let checks: [String: (columns: String, decode: (ResultRow) throws -> Void)] = [
            "seal": ("sealed", { _ = try master.open(try $0.bytes(0), label: "seal") }),
            "user": (
                "subject, name, key, created",
                { row in
                    try row.check(texts: 0)
                    try check(AccountName(try row.text(1))?.key == row.text(2))
                    try row.check(integers: 3)
                }
            ),
            "password": ("hash", { try check(PasswordHash(parsing: try $0.text(0)) != nil) }),
            "set_up": (
                "token, kind, expires",
                { row in
                    _ = try row.digest(0)
                    try check(SetUpKind(rawValue: try row.text(1)) != nil)
                    try row.check(integers: 2)
                }
            ),
            "recovery_code": ("code, subject", { _ = (try $0.digest(0), try $0.text(1)) }),
            "passkey": (
                "id, algorithm, key, name, created, counter",
                { row in
                    _ = try row.bytes(0)
                    try check(PasskeyKey(algorithm: try row.count(1), spki: try row.bytes(2)) != nil)
                    try row.check(texts: 3)
                    try row.check(integers: 4)
                    try check(UInt32(exactly: try row.integer(5)) != nil)
                }
            ),
            "web_session": (
                "id, agent, created, used",
                { row in
                    _ = try row.digest(0)
                    try row.check(texts: 1)
                    try row.check(integers: 2, 3)
                }
            ),
            "event": (
                "kind, detail, time, count",
                { row in
                    try check(AccountEvent.Kind(rawValue: try row.text(0)) != nil)
                    try row.check(texts: 1)
                    try row.check(integers: 2, 3)
                }
            ),
            "login": (
                """
                id, session, client, device, scopes, invited_by, created, rotated, current, endpoint_revoked, link_reused, revoked, key
                """,
                { row in
                    try check(FamilyID(try row.bytes(0)).session == row.text(1))
                    try row.check(texts: 2, 3)
                    try check(isScopes(try row.text(4)))
                    try check(try row.optional(5, row.text).map { EndpointID($0) != nil } ?? true)
                    try row.check(integers: 6, 7, 8, 9, 10)
                    _ = (try row.optional(11, row.integer), try row.optional(12, row.text))
                }
            ),
            "invitation": (
                "code, inviter, inviter_key, expires, redeemed, key, login",
                { row in
                    _ = try row.digest(0)
                    try check(try row.optional(1, row.text).map { EndpointID($0) != nil } ?? true)
                    _ = try row.optional(2, row.text)
                    try row.check(integers: 3)
                    try checkRedemption(row, 4)
                }
            ),
            "authorization_code": (
                "code, client, redirect, challenge, scopes, expires, redeemed, key, login",
                { row in
                    _ = (try row.digest(0), try row.digest(3))
                    try row.check(texts: 1, 2)
                    try check(isScopes(try row.text(4)))
                    try row.check(integers: 5)
                    try checkRedemption(row, 6)
                }
            ),
            "device_authorization": (
                "code, user_code, client, scopes, device, platform, network, address, expires, decided, subject",
                { row in
                    _ = (try row.digest(0), try row.digest(1))
                    try row.check(texts: 2, 4, 5, 6, 7)
                    try check(isScopes(try row.text(3)))
                    try row.check(integers: 8, 9)
                    _ = try row.optional(10, row.text)
                }
            ),
            "resource_server": ("secret", { _ = try $0.digest(0) }),
            "signing_key": (
                "id, sealed, activates",
                { row in
                    let bytes = try master.open(try row.bytes(1), label: try row.text(0))
                    try check(P256SigningKey(rawRepresentation: bytes).publicKey.jwkThumbprint == row.text(0))
                    try row.check(integers: 2)
                }
            ),
            "issuer_used": ("id, ends", { _ = (try $0.digest(0), try $0.integer(1)) }),
            "issuer_attempts": (
                "id, count, time, blocked",
                { row in
                    _ = try row.digest(0)
                    try row.check(integers: 1, 2, 3)
                }
            ),
        ]
        return IssuerTables.all.compactMap { table in checks[table.name].map { TableCheck(table, $0.columns, $0.decode) } }
    }
}
