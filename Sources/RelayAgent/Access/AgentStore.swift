// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

/// What the agent keeps for its API: `agent.sqlite` in the home of the account.
struct AgentStore: Sendable {
    let database: DatabaseQueue
    private let auditLimit: Int

    /// - Parameter auditLimit: How many entries of the audit each principal has at least, once it has had so many.
    init(_ home: Home, auditLimit: Int = 10_000) throws {
        self.auditLimit = auditLimit
        do throws(DatabaseFileError) {
            database = try DatabaseFile.open(home.path + "/agent.sqlite", migrator: Self.migrator)
        } catch {
            throw AgentError("storageFailed", "\(home.path)/agent.sqlite: \(error)", .failed)
        }
    }

    /// A released migration never changes. Times are milliseconds since 1970.
    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 tokens, audit") { database in
            try database.execute(
                sql: """
                    CREATE TABLE tokens (
                        id TEXT PRIMARY KEY NOT NULL,
                        name TEXT NOT NULL UNIQUE,
                        digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
                        -- JSON arrays; NULL means all
                        scopes TEXT NOT NULL,
                        devices TEXT,
                        schemes TEXT,
                        services TEXT,
                        created INTEGER NOT NULL,
                        expires INTEGER NOT NULL
                    ) WITHOUT ROWID;
                    CREATE TABLE audit (
                        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
                        time INTEGER NOT NULL,
                        principal TEXT NOT NULL,
                        action TEXT NOT NULL,
                        device TEXT,
                        -- A scheme or a service
                        subject TEXT,
                        answer TEXT NOT NULL
                    );
                    CREATE INDEX audit_of_principal ON audit (principal, sequence);
                    """
            )
        }
        migrator.registerMigration("2 grants", migrate: createGrants)
        registerWebhooks(&migrator)
        migrator.registerMigration("3 programs of grants", migrate: addHandlersToGrants)
        return migrator
    }

    // MARK: Tokens

    /// - Throws: `AgentError`: `nameTaken`, `limitExceeded`.
    func add(_ token: APIToken, digest: Digest256) async throws {
        try await database.write { database in
            try database.execute(sql: "DELETE FROM tokens WHERE expires <= ?", arguments: .bound(Self.milliseconds(.now)))
            guard (try Int.fetchOne(database, sql: "SELECT count(*) FROM tokens") ?? 0) < APIToken.maximum else {
                throw AgentError("limitExceeded", "there are \(APIToken.maximum) tokens; remove one: relay token list", .failed)
            }
            guard try Row.fetchOne(database, sql: "SELECT 1 FROM tokens WHERE name = ?", arguments: .bound(token.name)) == nil else {
                throw AgentError("nameTaken", "there is a token '\(token.name)' already; remove it first: relay token remove", .usage)
            }
            try database.execute(
                sql:
                    "INSERT INTO tokens (id, name, digest, scopes, devices, schemes, services, created, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                arguments: .bound(
                    token.id,
                    token.name,
                    Data(digest.bytes),
                    Self.json(token.scopes.map(\.rawValue)),
                    token.devices.map(Self.json),
                    token.schemes.map(Self.json),
                    token.services.map(Self.json),
                    Self.milliseconds(token.created),
                    Self.milliseconds(token.expires)
                )
            )
        }
    }

    func tokens() async throws -> [APIToken] {
        try await database.read { database in
            try Row.fetchAll(
                database,
                sql: "SELECT * FROM tokens WHERE expires > ? ORDER BY name",
                arguments: .bound(Self.milliseconds(.now))
            ).map(Self.token)
        }
    }

    /// The token of a digest, if it has not expired.
    func token(_ digest: Digest256) async throws -> APIToken? {
        try await database.read { database in
            try Row.fetchOne(
                database,
                sql: "SELECT * FROM tokens WHERE digest = ? AND expires > ?",
                arguments: .bound(Data(digest.bytes), Self.milliseconds(.now))
            ).map(Self.token)
        }
    }

    /// - Returns: Whether there was one.
    func removeToken(_ idOrName: String) async throws -> Bool {
        try await database.write { database in
            try database.execute(sql: "DELETE FROM tokens WHERE id = ? OR name = ?", arguments: .bound(idOrName, idOrName))
            return database.changesCount > 0
        }
    }

    static func token(_ row: Row) throws -> APIToken {
        APIToken(
            id: try row.required("id"),
            name: try row.required("name"),
            scopes: Set(try list(row.required("scopes")).compactMap { APIScope(rawValue: $0) }),
            devices: try (row["devices"] as String?).map { Set(try list($0)) },
            schemes: try (row["schemes"] as String?).map { Set(try list($0)) },
            services: try (row["services"] as String?).map { Set(try list($0)) },
            created: date(try row.required("created")),
            expires: date(try row.required("expires"))
        )
    }

    // MARK: Audit

    struct AuditEntry: Codable, Sendable {
        var sequence: Int64
        var time: Date
        var principal: String
        var action: String
        var device: String?
        /// A scheme or a service.
        var subject: String?
        var answer: String
    }

    /// Old entries are deleted once for this many new ones, because finding them takes longer than adding one.
    static let auditBatch = 64
    static let auditDays = 90

    /// Adds an entry, and deletes old entries of the same principal alone.
    func audit(_ principal: String, _ action: String, device: String?, subject: String?, answer: String) async throws {
        try await database.write { try add(principal, action, device, subject, answer, to: $0) }
    }

    /// The same where nothing can wait. It blocks the thread for one write.
    func auditNow(_ principal: String, _ action: String, device: String?, subject: String?, answer: String) throws {
        try database.write { try add(principal, action, device, subject, answer, to: $0) }
    }

    private func add(
        _ principal: String,
        _ action: String,
        _ device: String?,
        _ subject: String?,
        _ answer: String,
        to database: Database
    ) throws {
        let now = Self.milliseconds(.now)
        try database.execute(
            sql: "INSERT INTO audit (time, principal, action, device, subject, answer) VALUES (?, ?, ?, ?, ?, ?)",
            arguments: .bound(now, principal, action, device, subject, answer)
        )
        guard database.lastInsertedRowID.isMultiple(of: Int64(Self.auditBatch)) else { return }
        try database.execute(
            sql: """
                DELETE FROM audit WHERE time < ?1 OR principal = ?2 AND sequence <= (
                    SELECT sequence FROM audit WHERE principal = ?2 ORDER BY sequence DESC LIMIT 1 OFFSET ?3)
                """,
            arguments: .bound(now - Int64(Self.auditDays) * 86_400_000, principal, auditLimit)
        )
    }

    /// The newest entries before one of them.
    /// - Parameter reader: A token for some devices reads what concerns them.
    func audit(before sequence: Int64?, of reader: Principal, limit: Int) async throws -> [AuditEntry] {
        var devices: Set<String>?
        if case .token(let token) = reader { devices = token.devices }
        let list = devices.map(Self.json)
        return try await database.read { database in
            try Row.fetchAll(
                database,
                sql: """
                    SELECT * FROM audit WHERE sequence < ?1 AND (?2 IS NULL OR device IN (SELECT value FROM json_each(?2)))
                    ORDER BY sequence DESC LIMIT ?3
                    """,
                arguments: .bound(sequence ?? .max, list, limit)
            ).map { row in
                AuditEntry(
                    sequence: try row.required("sequence"),
                    time: Self.date(try row.required("time")),
                    principal: try row.required("principal"),
                    action: try row.required("action"),
                    device: row["device"],
                    subject: row["subject"],
                    answer: try row.required("answer")
                )
            }
        }
    }

    func auditCount(of principal: String) async throws -> Int {
        try await database.read { database in
            try Int.fetchOne(database, sql: "SELECT count(*) FROM audit WHERE principal = ?", arguments: .bound(principal)) ?? 0
        }
    }

    // MARK: Columns

    static func milliseconds(_ date: Date) -> Int64 { Int64((date.timeIntervalSince1970 * 1_000).rounded()) }
    static func date(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1_000) }

    static func json(_ texts: some Sequence<String>) -> String {
        String(decoding: (try? JSONEncoder().encode(texts.sorted())) ?? Data("[]".utf8), as: UTF8.self)
    }

    static func list(_ json: String) throws -> [String] { try JSONDecoder().decode([String].self, from: Data(json.utf8)) }
}
