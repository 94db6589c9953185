// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage

// Users, and the ways in which they sign in at the issuer's pages.
extension SQLIssuerTransaction {
    func user(_ subject: String) throws -> IssuerUser? {
        try database.first("SELECT subject, name FROM \"user\" WHERE subject = ?", [subject], readUser)
    }

    func user(named name: AccountName) throws -> IssuerUser? {
        try database.first("SELECT subject, name FROM \"user\" WHERE key = ?", [name.key], readUser)
    }

    func password(of subject: String) throws -> PasswordHash? {
        try database.first("SELECT hash FROM password WHERE subject = ?", [subject]) { try $0.text(0) }
            .flatMap(PasswordHash.init(parsing:))
    }

    func setPassword(_ hash: PasswordHash, of subject: String) throws {
        try database.execute(
            "INSERT INTO password (subject, hash) VALUES (?, ?) ON CONFLICT (subject) DO UPDATE SET hash = excluded.hash",
            [subject, hash.text]
        )
    }

    func setSetUpToken(_ token: Digest256, _ kind: SetUpKind, of subject: String, expires: Milliseconds) throws {
        try database.execute(
            """
            INSERT INTO set_up (token, kind, subject, expires) VALUES (?, ?, ?, ?)
            ON CONFLICT (subject) DO UPDATE SET token = excluded.token, kind = excluded.kind, expires = excluded.expires
            """,
            [Data(token.bytes), kind.rawValue, subject, expires.count]
        )
    }

    func setUp(_ token: Digest256, now: Milliseconds) throws -> (subject: String, kind: SetUpKind)? {
        let found = try database.first(
            "SELECT subject, kind FROM set_up WHERE token = ? AND expires > ?",
            [Data(token.bytes), now.count]
        ) { (subject: try $0.text(0), kind: try $0.text(1)) }
        return found.flatMap { found in SetUpKind(rawValue: found.kind).map { (found.subject, $0) } }
    }

    func removeSetUpToken(of subject: String) throws {
        try database.execute("DELETE FROM set_up WHERE subject = ?", [subject])
    }

    func setRecoveryCodes(_ codes: [Digest256], of subject: String) throws {
        try database.execute("DELETE FROM recovery_code WHERE subject = ?", [subject])
        for code in codes {
            try database.execute("INSERT INTO recovery_code (code, subject) VALUES (?, ?)", [Data(code.bytes), subject])
        }
    }

    func useRecoveryCode(_ code: Digest256, of subject: String) throws -> Bool {
        try database.changes("DELETE FROM recovery_code WHERE code = ? AND subject = ?", [Data(code.bytes), subject]) > 0
    }

    func recoveryCodes(of subject: String) throws -> Int {
        try count("SELECT count(*) FROM recovery_code WHERE subject = ?", [subject])
    }

    func removePassword(of subject: String) throws {
        try database.execute("DELETE FROM password WHERE subject = ?", [subject])
    }

    // MARK: Passkeys

    func insert(_ passkey: Passkey) throws {
        try database.execute(
            "INSERT INTO passkey (id, subject, algorithm, key, name, created, counter) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                Data(passkey.id),
                passkey.subject,
                passkey.key.algorithm.rawValue,
                Data(passkey.key.spki),
                passkey.name,
                passkey.created.count,
                Int64(passkey.counter),
            ]
        )
    }

    func passkey(_ id: [UInt8]) throws -> Passkey? { try passkeys("id = ?", [Data(id)]).first }

    func passkeys(of subject: String) throws -> [Passkey] { try passkeys("subject = ?", [subject]) }

    private func passkeys(_ condition: String, _ values: [(any SQLParameter)?]) throws -> [Passkey] {
        try database.rows(
            "SELECT id, subject, algorithm, key, name, created, counter FROM passkey WHERE \(condition) ORDER BY created, id",
            values
        ) { row in
            guard let key = PasskeyKey(algorithm: try row.count(2), spki: try row.bytes(3)) else { return nil }
            return Passkey(
                id: try row.bytes(0),
                subject: try row.text(1),
                key: key,
                name: try row.text(4),
                created: try row.time(5),
                counter: UInt32(clamping: try row.integer(6))
            )
        }.compactMap { $0 }
    }

    func update(_ passkey: Passkey) throws {
        try database.execute("UPDATE passkey SET counter = ? WHERE id = ?", [Int64(passkey.counter), Data(passkey.id)])
    }

    func removePasskeys(of subject: String) throws {
        try database.execute("DELETE FROM passkey WHERE subject = ?", [subject])
    }

    func removePasskey(_ id: [UInt8]) throws { try database.execute("DELETE FROM passkey WHERE id = ?", [Data(id)]) }

    // MARK: Sessions

    func insert(_ session: WebSession) throws {
        try database.execute(
            "INSERT INTO web_session (id, subject, agent, created, used) VALUES (?, ?, ?, ?, ?)",
            [Data(session.id.bytes), session.subject, session.agent, session.created.count, session.used.count]
        )
        try database.execute(
            """
            DELETE FROM web_session WHERE subject = ? AND id NOT IN
            (SELECT id FROM web_session WHERE subject = ? ORDER BY used DESC, id LIMIT ?)
            """,
            [session.subject, session.subject, WebSession.maximum]
        )
    }

    func session(_ id: Digest256) throws -> WebSession? { try sessions("id = ?", [Data(id.bytes)]).first }

    func sessions(of subject: String) throws -> [WebSession] { try sessions("subject = ?", [subject]) }

    private func sessions(_ condition: String, _ values: [(any SQLParameter)?]) throws -> [WebSession] {
        try database.rows(
            "SELECT id, subject, agent, created, used FROM web_session WHERE \(condition) ORDER BY used DESC, id",
            values
        ) { row in
            WebSession(
                id: try row.digest(0),
                subject: try row.text(1),
                agent: try row.text(2),
                created: try row.time(3),
                used: try row.time(4)
            )
        }
    }

    func setUsed(_ id: Digest256, at now: Milliseconds) throws {
        try database.execute("UPDATE web_session SET used = ? WHERE id = ?", [now.count, Data(id.bytes)])
    }

    func removeSession(_ id: Digest256, of subject: String) throws -> Bool {
        try database.changes("DELETE FROM web_session WHERE id = ? AND subject = ?", [Data(id.bytes), subject]) > 0
    }

    func removeSessions(of subject: String) throws {
        try database.execute("DELETE FROM web_session WHERE subject = ?", [subject])
        // Redeemed codes stay, because a second use ends the login.
        try database.execute("DELETE FROM authorization_code WHERE subject = ? AND redeemed = 0", [subject])
        try database.execute("DELETE FROM device_authorization WHERE subject = ? AND decided = 1", [subject])
    }

    // MARK: Events

    func note(_ kind: AccountEvent.Kind, of subject: String, _ detail: String, now: Milliseconds) throws {
        let isFailure = kind == .signInFailed
        if isFailure {
            let counted = try database.changes(
                "UPDATE event SET count = count + 1 WHERE subject = ? AND kind = ? AND time > ?",
                [subject, kind.rawValue, now.count - AccountEvent.failureSpan]
            )
            if counted > 0 { return }
        }
        try database.execute(
            "INSERT INTO event (subject, kind, detail, time) VALUES (?, ?, ?, ?)",
            [subject, kind.rawValue, detail, now.count]
        )
        let alike = "subject = ? AND kind \(isFailure ? "=" : "<>") ?"
        let failed = AccountEvent.Kind.signInFailed.rawValue
        try database.execute(
            "DELETE FROM event WHERE \(alike) AND id NOT IN (SELECT id FROM event WHERE \(alike) ORDER BY id DESC LIMIT ?)",
            [subject, failed, subject, failed, isFailure ? AccountEvent.maximumFailuresKept : AccountEvent.maximumKept]
        )
    }

    func events(of subject: String) throws -> [AccountEvent] {
        try database.rows(
            "SELECT kind, detail, time, count FROM event WHERE subject = ? ORDER BY time DESC, id DESC",
            [subject]
        ) { row in
            try AccountEvent.Kind(rawValue: try row.text(0)).map {
                AccountEvent(kind: $0, detail: try row.text(1), time: try row.time(2), count: try row.count(3))
            }
        }.compactMap { $0 }
    }
}
