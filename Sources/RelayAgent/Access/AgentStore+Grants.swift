// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayStorage

/// The grants that a person has given.
extension AgentStore {
    static func createGrants(_ database: Database) throws {
        try database.execute(
            sql: """
                CREATE TABLE grants (
                    id TEXT PRIMARY KEY NOT NULL,
                    -- NULL for all known devices
                    device TEXT,
                    kind TEXT NOT NULL,
                    -- A scheme; empty for transfers
                    name TEXT NOT NULL,
                    until INTEGER NOT NULL,
                    source TEXT NOT NULL,
                    uses INTEGER NOT NULL DEFAULT 0,
                    last_use INTEGER
                ) WITHOUT ROWID;
                CREATE UNIQUE INDEX grant_of_device ON grants (kind, name, ifnull(device, ''));
                """
        )
    }

    /// Grants remember the program that the person chose.
    static func addHandlersToGrants(_ database: Database) throws {
        try database.execute(
            sql: """
                -- The id of a desktop entry; NULL for the default
                ALTER TABLE grants ADD COLUMN handler TEXT;
                ALTER TABLE grants ADD COLUMN handler_name TEXT;
                """
        )
    }

    /// Adds a grant. One for the same takes its place.
    /// - Throws: `AgentError`: `limitExceeded`.
    func add(_ grant: Grant) async throws {
        let (kind, name) = Self.columns(of: grant.subject)
        try await database.write { database in
            let now = Self.milliseconds(.now)
            try database.execute(
                sql: "DELETE FROM grants WHERE until <= ? OR kind = ? AND name = ? AND device IS ?",
                arguments: .bound(now, kind, name, grant.device)
            )
            guard (try Int.fetchOne(database, sql: "SELECT count(*) FROM grants") ?? 0) < GrantBook.maximum else {
                throw AgentError("limitExceeded", "there are \(GrantBook.maximum) grants; remove one: relay grants list", .failed)
            }
            try database.execute(
                sql: """
                    INSERT INTO grants (id, device, kind, name, until, source, handler, handler_name) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: .bound(
                    grant.id,
                    grant.device,
                    kind,
                    name,
                    Self.milliseconds(grant.until ?? .now),
                    grant.source.rawValue,
                    grant.handler?.id,
                    grant.handler?.name
                )
            )
        }
    }

    func grants() async throws -> [Grant] {
        try await database.read { database in
            try Row.fetchAll(
                database,
                sql: "SELECT * FROM grants WHERE until > ? ORDER BY kind, name, device",
                arguments: .bound(Self.milliseconds(.now))
            ).compactMap { row in
                guard let subject = Self.subject(kind: try row.required("kind"), name: try row.required("name")),
                    let source = Grant.Source(rawValue: try row.required("source"))
                else { return nil }
                return Grant(
                    id: try row.required("id"),
                    device: row["device"],
                    subject: subject,
                    until: Self.date(try row.required("until")),
                    source: source,
                    uses: try row.required("uses"),
                    lastUse: (row["last_use"] as Int64?).map(Self.date),
                    handler: (row["handler"] as String?).map { LinkHandler(id: $0, name: row["handler_name"] ?? $0) }
                )
            }
        }
    }

    /// Counts one use of the grant of a device, or else of all known devices.
    /// - Parameter handlers: The ids of the programs that there are. Grants for others do not count.
    /// - Returns: The answer, with the program of the grant; `nil` if there is no grant.
    func useGrant(_ subject: Grant.Subject, device: String, handlers: [String]) async throws -> AskAnswer? {
        let (kind, name) = Self.columns(of: subject)
        let ids = Self.json(handlers)
        return try await database.write { database in
            let now = Self.milliseconds(.now)
            let row = try Row.fetchOne(
                database,
                sql: """
                    UPDATE grants SET uses = uses + 1, last_use = ?1 WHERE id = (
                        SELECT id FROM grants WHERE kind = ?2 AND name = ?3 AND until > ?1 AND (device IS NULL OR device = ?4)
                        AND (handler IS NULL OR handler IN (SELECT value FROM json_each(?5)))
                        ORDER BY device IS NULL LIMIT 1)
                    RETURNING handler
                    """,
                arguments: .bound(now, kind, name, device, ids)
            )
            return row.map { .once(handler: $0["handler"]) }
        }
    }

    /// - Returns: Whether there was one.
    func removeGrant(_ id: String) async throws -> Bool {
        try await database.write { database in
            try database.execute(sql: "DELETE FROM grants WHERE id = ?", arguments: .bound(id))
            return database.changesCount > 0
        }
    }

    private static func columns(of subject: Grant.Subject) -> (kind: String, name: String) {
        switch subject {
        case .scheme(let name): ("scheme", name)
        case .service(let name): ("service", name)
        case .folder(let name): ("folder", name)
        case .transfer: ("transfer", "")
        }
    }

    private static func subject(kind: String, name: String) -> Grant.Subject? {
        switch kind {
        case "scheme": .scheme(name)
        case "service": .service(name)
        case "folder": .folder(name)
        case "transfer": .transfer
        default: nil
        }
    }
}
