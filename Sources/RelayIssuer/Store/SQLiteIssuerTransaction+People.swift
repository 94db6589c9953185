// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

// Users, and the ways in which they sign in at the issuer's pages.
extension SQLiteIssuerTransaction {
    func user(_ subject: String) throws -> IssuerUser? {
        try Row.fetchOne(db, sql: "SELECT subject, name FROM user WHERE subject = ?", arguments: .bound(subject))
            .map { IssuerUser(subject: $0["subject"], name: $0["name"]) }
    }

    func user(named name: AccountName) throws -> IssuerUser? {
        try Row.fetchOne(db, sql: "SELECT subject, name FROM user WHERE key = ?", arguments: .bound(name.key))
            .map { IssuerUser(subject: $0["subject"], name: $0["name"]) }
    }

    func password(of subject: String) throws -> PasswordHash? {
        try String.fetchOne(db, sql: "SELECT hash FROM password WHERE subject = ?", arguments: .bound(subject))
            .flatMap(PasswordHash.init(parsing:))
    }

    func setPassword(_ hash: PasswordHash, of subject: String) throws {
        try db.execute(
            sql: "INSERT INTO password (subject, hash) VALUES (?, ?) ON CONFLICT (subject) DO UPDATE SET hash = excluded.hash",
            arguments: .bound(subject, hash.text)
        )
    }

    func setSetUpToken(_ token: Digest256, _ kind: SetUpKind, of subject: String, expires: Milliseconds) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO set_up (token, kind, subject, expires) VALUES (?, ?, ?, ?)",
            arguments: .bound(Data(token.bytes), kind.rawValue, subject, expires.count)
        )
    }

    func setUp(_ token: Digest256, now: Milliseconds) throws -> (subject: String, kind: SetUpKind)? {
        try Row.fetchOne(
            db,
            sql: "SELECT subject, kind FROM set_up WHERE token = ? AND expires > ?",
            arguments: .bound(Data(token.bytes), now.count)
        ).flatMap { row in SetUpKind(rawValue: row["kind"]).map { (row["subject"], $0) } }
    }

    func removeSetUpToken(of subject: String) throws {
        try db.execute(sql: "DELETE FROM set_up WHERE subject = ?", arguments: .bound(subject))
    }

    func setRecoveryCodes(_ codes: [Digest256], of subject: String) throws {
        try db.execute(sql: "DELETE FROM recovery_code WHERE subject = ?", arguments: .bound(subject))
        for code in codes {
            try db.execute(sql: "INSERT INTO recovery_code (code, subject) VALUES (?, ?)", arguments: .bound(Data(code.bytes), subject))
        }
    }

    func useRecoveryCode(_ code: Digest256, of subject: String) throws -> Bool {
        try db.execute(sql: "DELETE FROM recovery_code WHERE code = ? AND subject = ?", arguments: .bound(Data(code.bytes), subject))
        return db.changesCount > 0
    }

    func recoveryCodes(of subject: String) throws -> Int {
        try Int.fetchOne(db, sql: "SELECT count(*) FROM recovery_code WHERE subject = ?", arguments: .bound(subject)) ?? 0
    }

    func removePassword(of subject: String) throws {
        try db.execute(sql: "DELETE FROM password WHERE subject = ?", arguments: .bound(subject))
    }

    // MARK: Passkeys

    func insert(_ passkey: Passkey) throws {
        try db.execute(
            sql: "INSERT INTO passkey (id, subject, algorithm, key, name, created, counter) VALUES (?, ?, ?, ?, ?, ?, ?)",
            arguments: .bound(
                Data(passkey.id),
                passkey.subject,
                passkey.key.algorithm.rawValue,
                Data(passkey.key.spki),
                passkey.name,
                passkey.created.count,
                Int64(passkey.counter)
            )
        )
    }

    func passkey(_ id: [UInt8]) throws -> Passkey? { try passkeys("id = ?", [Data(id)]).first }

    func passkeys(of subject: String) throws -> [Passkey] { try passkeys("subject = ?", [subject]) }

    private func passkeys(_ condition: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [Passkey] {
        try Row.fetchAll(db, sql: "SELECT * FROM passkey WHERE \(condition) ORDER BY created, id", arguments: .bound(arguments)).compactMap
        { row in
            guard let key = PasskeyKey(algorithm: row["algorithm"], spki: [UInt8](row["key"] as Data)) else { return nil }
            return Passkey(
                id: [UInt8](row["id"] as Data),
                subject: row["subject"],
                key: key,
                name: row["name"],
                created: Milliseconds(clamping: row["created"] as Int64),
                counter: UInt32(clamping: row["counter"] as Int64)
            )
        }
    }

    func update(_ passkey: Passkey) throws {
        try db.execute(sql: "UPDATE passkey SET counter = ? WHERE id = ?", arguments: .bound(Int64(passkey.counter), Data(passkey.id)))
    }

    func removePasskeys(of subject: String) throws {
        try db.execute(sql: "DELETE FROM passkey WHERE subject = ?", arguments: .bound(subject))
    }

    func removePasskey(_ id: [UInt8]) throws { try db.execute(sql: "DELETE FROM passkey WHERE id = ?", arguments: .bound(Data(id))) }

    // MARK: Sessions

    func insert(_ session: WebSession) throws {
        try db.execute(
            sql: "INSERT INTO web_session (id, subject, agent, created, used) VALUES (?, ?, ?, ?, ?)",
            arguments: .bound(Data(session.id.bytes), session.subject, session.agent, session.created.count, session.used.count)
        )
        try db.execute(
            sql: """
                DELETE FROM web_session WHERE subject = ?1 AND id NOT IN
                (SELECT id FROM web_session WHERE subject = ?1 ORDER BY used DESC, id LIMIT ?2)
                """,
            arguments: .bound(session.subject, WebSession.maximum)
        )
    }

    func session(_ id: Digest256) throws -> WebSession? { try sessions("id = ?", [Data(id.bytes)]).first }

    func sessions(of subject: String) throws -> [WebSession] { try sessions("subject = ?", [subject]) }

    private func sessions(_ condition: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [WebSession] {
        try Row.fetchAll(db, sql: "SELECT * FROM web_session WHERE \(condition) ORDER BY used DESC, id", arguments: .bound(arguments))
            .compactMap { row in
                guard let id = Digest256(bytes: [UInt8](row["id"] as Data)) else { return nil }
                return WebSession(
                    id: id,
                    subject: row["subject"],
                    agent: row["agent"],
                    created: Milliseconds(clamping: row["created"] as Int64),
                    used: Milliseconds(clamping: row["used"] as Int64)
                )
            }
    }

    func setUsed(_ id: Digest256, at now: Milliseconds) throws {
        try db.execute(sql: "UPDATE web_session SET used = ? WHERE id = ?", arguments: .bound(now.count, Data(id.bytes)))
    }

    func removeSession(_ id: Digest256, of subject: String) throws -> Bool {
        try db.execute(sql: "DELETE FROM web_session WHERE id = ? AND subject = ?", arguments: .bound(Data(id.bytes), subject))
        return db.changesCount > 0
    }

    func removeSessions(of subject: String) throws {
        try db.execute(sql: "DELETE FROM web_session WHERE subject = ?", arguments: .bound(subject))
        // Redeemed codes stay, because a second use ends the login.
        try db.execute(sql: "DELETE FROM authorization_code WHERE subject = ? AND redeemed = 0", arguments: .bound(subject))
        try db.execute(sql: "DELETE FROM device_authorization WHERE subject = ? AND decided = 1", arguments: .bound(subject))
    }

    // MARK: Events

    func note(_ kind: AccountEvent.Kind, of subject: String, _ detail: String, now: Milliseconds) throws {
        let isFailure = kind == .signInFailed
        if isFailure {
            try db.execute(
                sql: "UPDATE event SET count = count + 1 WHERE subject = ? AND kind = ? AND time > ?",
                arguments: .bound(subject, kind.rawValue, now.count - AccountEvent.failureSpan)
            )
            if db.changesCount > 0 { return }
        }
        try db.execute(
            sql: "INSERT INTO event (subject, kind, detail, time) VALUES (?, ?, ?, ?)",
            arguments: .bound(subject, kind.rawValue, detail, now.count)
        )
        try db.execute(
            sql: """
                DELETE FROM event WHERE subject = ?1 AND (kind = ?2) = ?3 AND id NOT IN
                (SELECT id FROM event WHERE subject = ?1 AND (kind = ?2) = ?3 ORDER BY id DESC LIMIT ?4)
                """,
            arguments: .bound(
                subject,
                AccountEvent.Kind.signInFailed.rawValue,
                isFailure,
                isFailure ? AccountEvent.maximumFailuresKept : AccountEvent.maximumKept
            )
        )
    }

    func events(of subject: String) throws -> [AccountEvent] {
        try Row.fetchAll(db, sql: "SELECT * FROM event WHERE subject = ? ORDER BY time DESC, id DESC", arguments: .bound(subject))
            .compactMap { row in
                guard let kind = AccountEvent.Kind(rawValue: row["kind"]) else { return nil }
                return AccountEvent(
                    kind: kind,
                    detail: row["detail"],
                    time: Milliseconds(clamping: row["time"] as Int64),
                    count: row["count"]
                )
            }
    }
}
