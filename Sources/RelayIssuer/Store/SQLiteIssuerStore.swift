// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayProtocol
import RelayStorage

/// The issuer's rows in one SQLite file of its own.
struct SQLiteIssuerStore: IssuerStore {
    private let database: DatabaseQueue

    /// Opens the database, or creates it.
    init(path: String, master: MasterKey) throws(IssuerError) {
        self.database = try SQLiteIssuerStore.translated {
            // The command line writes to the database while the service runs.
            let database = try DatabaseFile.open(path, migrator: SQLiteIssuerStore.migrator, label: "issuer")
            try database.write { try SQLIssuerTransaction(database: $0).checkSeal(by: master) }
            return database
        }
    }

    func write<Result: Sendable>(_ body: @escaping @Sendable (any IssuerTransaction) throws -> Result) async throws(IssuerError) -> Result {
        do {
            return try await database.write { try body(SQLIssuerTransaction(database: $0)) }
        } catch {
            throw SQLiteIssuerStore.issuerError(error)
        }
    }

    func read<Result: Sendable>(_ body: @escaping @Sendable (any IssuerTransaction) throws -> Result) async throws(IssuerError) -> Result {
        do {
            return try await database.writeWithoutTransaction { db in try db.snapshot { try body(SQLIssuerTransaction(database: db)) } }
        } catch {
            throw SQLiteIssuerStore.issuerError(error)
        }
    }

    /// As `write`: SQLite has one writer.
    func count<Result: Sendable>(_ body: @escaping @Sendable (any AttemptTransaction) throws -> Result) async throws(IssuerError) -> Result
    {
        do {
            return try await database.write { try body(SQLIssuerTransaction(database: $0)) }
        } catch {
            throw SQLiteIssuerStore.issuerError(error)
        }
    }

    func close() throws(IssuerError) {
        try SQLiteIssuerStore.translated { try database.close() }
    }

    private static func translated<Result>(_ body: () throws -> Result) throws(IssuerError) -> Result {
        do { return try body() } catch { throw issuerError(error) }
    }

    /// Converts an error. SQLite's messages may quote stored data; its result codes do not.
    private static func issuerError(_ error: any Error) -> IssuerError {
        switch error {
        case let error as IssuerError: error
        case DatabaseFileError.notDurable: .notDurable
        case DatabaseFileError.tooNew: .databaseTooNew
        case let error as DatabaseFileError: .database(code: error.code.rawValue)
        case let error as DatabaseError: .database(code: error.extendedResultCode.rawValue)
        default: .database(code: ResultCode.SQLITE_ERROR.rawValue)
        }
    }
}

extension SQLiteIssuerStore {
    /// The migrations. They are append-only once there is a release: a released migration never changes.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 users, passwords, browsers, invitations, logins, keys") { db in
            try db.execute(
                sql: """
                    CREATE TABLE user (
                        subject TEXT NOT NULL PRIMARY KEY CHECK (length(subject) BETWEEN 16 AND 64),
                        name TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 64),
                        created INTEGER NOT NULL
                    ) STRICT;
                    CREATE TABLE password (
                        subject TEXT NOT NULL PRIMARY KEY REFERENCES user (subject) ON DELETE CASCADE,
                        hash TEXT NOT NULL CHECK (hash GLOB '$scrypt$*')
                    ) STRICT;
                    CREATE TABLE set_up (
                        token BLOB NOT NULL PRIMARY KEY CHECK (length(token) = 32),
                        subject TEXT NOT NULL UNIQUE REFERENCES user (subject) ON DELETE CASCADE,
                        expires INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE recovery_code (
                        code BLOB NOT NULL PRIMARY KEY CHECK (length(code) = 32),
                        subject TEXT NOT NULL REFERENCES user (subject) ON DELETE CASCADE
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX recovery_code_subject ON recovery_code (subject);
                    CREATE TABLE passkey (
                        id BLOB NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 1023),
                        subject TEXT NOT NULL REFERENCES user (subject) ON DELETE CASCADE,
                        algorithm INTEGER NOT NULL,
                        key BLOB NOT NULL,
                        name TEXT NOT NULL,
                        created INTEGER NOT NULL,
                        counter INTEGER NOT NULL CHECK (counter BETWEEN 0 AND 4294967295)
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX passkey_subject ON passkey (subject);
                    CREATE TABLE web_session (
                        id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 32),
                        subject TEXT NOT NULL REFERENCES user (subject) ON DELETE CASCADE,
                        agent TEXT NOT NULL,
                        created INTEGER NOT NULL,
                        used INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX web_session_subject ON web_session (subject, used);
                    CREATE INDEX web_session_used ON web_session (used);
                    CREATE TABLE event (
                        id INTEGER PRIMARY KEY,
                        subject TEXT NOT NULL REFERENCES user (subject) ON DELETE CASCADE,
                        kind TEXT NOT NULL,
                        detail TEXT NOT NULL,
                        time INTEGER NOT NULL,
                        count INTEGER NOT NULL DEFAULT 1
                    ) STRICT;
                    CREATE INDEX event_subject ON event (subject, id);
                    CREATE TABLE login (
                        id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
                        session TEXT NOT NULL UNIQUE CHECK (length(session) = 22),
                        subject TEXT NOT NULL REFERENCES user (subject) ON DELETE CASCADE,
                        client TEXT NOT NULL,
                        scopes TEXT NOT NULL CHECK (length(scopes) > 0),
                        device TEXT NOT NULL DEFAULT '',
                        key TEXT CHECK (length(key) = 43),
                        invited_by TEXT CHECK (length(invited_by) = 52),
                        created INTEGER NOT NULL,
                        rotated INTEGER NOT NULL,
                        current INTEGER NOT NULL CHECK (current > 0),
                        revoked INTEGER,
                        endpoint_revoked INTEGER NOT NULL DEFAULT 0 CHECK (endpoint_revoked IN (0, 1))
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX login_subject ON login (subject, revoked, rotated);
                    CREATE INDEX login_key ON login (key) WHERE key IS NOT NULL;
                    CREATE INDEX login_rotated ON login (rotated);
                    CREATE INDEX login_revoked ON login (revoked) WHERE revoked IS NOT NULL;
                    CREATE TABLE invitation (
                        code BLOB NOT NULL PRIMARY KEY CHECK (length(code) = 32),
                        subject TEXT NOT NULL REFERENCES user (subject) ON DELETE CASCADE,
                        inviter TEXT CHECK (length(inviter) = 52),
                        inviter_key TEXT CHECK (length(inviter_key) = 43),
                        expires INTEGER NOT NULL,
                        redeemed INTEGER NOT NULL DEFAULT 0 CHECK (redeemed IN (0, 1)),
                        key TEXT CHECK (length(key) = 43),
                        login BLOB REFERENCES login (id) ON DELETE SET NULL,
                        CHECK ((inviter IS NULL) = (inviter_key IS NULL)),
                        CHECK (redeemed = 1 OR (key IS NULL AND login IS NULL))
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX invitation_subject ON invitation (subject);
                    CREATE INDEX invitation_inviter ON invitation (inviter_key) WHERE inviter_key IS NOT NULL;
                    CREATE INDEX invitation_login ON invitation (login);
                    CREATE INDEX invitation_expires ON invitation (expires);
                    CREATE TABLE authorization_code (
                        code BLOB NOT NULL PRIMARY KEY CHECK (length(code) = 32),
                        subject TEXT NOT NULL REFERENCES user (subject) ON DELETE CASCADE,
                        client TEXT NOT NULL,
                        redirect TEXT NOT NULL,
                        challenge BLOB NOT NULL CHECK (length(challenge) = 32),
                        scopes TEXT NOT NULL CHECK (length(scopes) > 0),
                        expires INTEGER NOT NULL,
                        redeemed INTEGER NOT NULL DEFAULT 0 CHECK (redeemed IN (0, 1)),
                        key TEXT CHECK (length(key) = 43),
                        login BLOB REFERENCES login (id) ON DELETE SET NULL,
                        CHECK (redeemed = 1 OR (key IS NULL AND login IS NULL))
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX authorization_code_subject ON authorization_code (subject);
                    CREATE INDEX authorization_code_login ON authorization_code (login);
                    CREATE TABLE device_authorization (
                        code BLOB NOT NULL PRIMARY KEY CHECK (length(code) = 32),
                        user_code BLOB NOT NULL UNIQUE CHECK (length(user_code) = 32),
                        client TEXT NOT NULL,
                        scopes TEXT NOT NULL CHECK (length(scopes) > 0),
                        device TEXT NOT NULL,
                        platform TEXT NOT NULL,
                        network TEXT NOT NULL,
                        address TEXT NOT NULL,
                        expires INTEGER NOT NULL,
                        decided INTEGER NOT NULL DEFAULT 0 CHECK (decided IN (0, 1)),
                        subject TEXT REFERENCES user (subject) ON DELETE CASCADE,
                        CHECK (decided = 1 OR subject IS NULL)
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX device_authorization_expires ON device_authorization (expires);
                    CREATE INDEX device_authorization_network ON device_authorization (decided, network, address, expires);
                    CREATE INDEX device_authorization_subject ON device_authorization (subject);
                    CREATE TABLE resource_server (
                        name TEXT NOT NULL PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
                        secret BLOB NOT NULL CHECK (length(secret) = 32)
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE signing_key (
                        id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 43),
                        sealed BLOB NOT NULL,
                        activates INTEGER NOT NULL
                    ) STRICT;
                    CREATE TABLE seal (
                        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
                        sealed BLOB NOT NULL
                    ) STRICT;
                    """
            )
        }
        migrator.registerMigration("2 names without case") { db in
            try db.execute(sql: "ALTER TABLE user ADD COLUMN key TEXT NOT NULL DEFAULT ''")
            var taken: Set<[UInt8]> = []
            for row in try Row.fetchAll(db, sql: "SELECT subject, name FROM user ORDER BY created, subject") {
                let (subject, old): (String, String) = (row["subject"], row["name"])
                let start = String(String.UnicodeScalarView(old.unicodeScalars.prefix(AccountName.maximumCharacters - 8)))
                // If the names of two accounts are now the same, the older account keeps its name.
                let names = [old] + (2...10_000).map { "\(start) (\($0))" }
                guard let name = names.lazy.compactMap(AccountName.init).first(where: { taken.insert(Array($0.key.utf8)).inserted }) else {
                    throw IssuerError.nameTaken
                }
                try db.execute(sql: "UPDATE user SET name = ?, key = ? WHERE subject = ?", arguments: .bound(name.text, name.key, subject))
            }
            try db.execute(sql: "CREATE UNIQUE INDEX user_key ON user (key)")
        }
        migrator.registerMigration("3 what a set-up ends") { db in
            try db.execute(
                sql: "ALTER TABLE set_up ADD COLUMN kind TEXT NOT NULL DEFAULT 'link' CHECK (kind IN ('link', 'reset', 'recovery'))"
            )
        }
        migrator.registerMigration("4 why a login ended") { db in
            try db.execute(sql: "ALTER TABLE login ADD COLUMN link_reused INTEGER NOT NULL DEFAULT 0 CHECK (link_reused IN (0, 1))")
        }
        migrator.registerMigration("5 used proofs and challenges, attempts") { db in
            try db.execute(
                sql: """
                    CREATE TABLE issuer_used (
                        id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 32),
                        ends INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX issuer_used_ends ON issuer_used (ends);
                    CREATE TABLE issuer_attempts (
                        id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 32),
                        count INTEGER NOT NULL,
                        time INTEGER NOT NULL,
                        blocked INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX issuer_attempts_time ON issuer_attempts (time);
                    """
            )
        }
        return migrator
    }
}
