// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import GRDB
import RelayProtocol
import RelayStorage

/// The webhooks, without their messages.
extension AgentStore {
    static func registerWebhooks(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("2 webhooks") { database in
            try database.execute(
                sql: """
                    CREATE TABLE webhooks (
                        id TEXT PRIMARY KEY NOT NULL,
                        -- NULL for the owner's
                        token TEXT REFERENCES tokens (id) ON DELETE CASCADE,
                        url TEXT NOT NULL,
                        -- A JSON array
                        types TEXT NOT NULL,
                        uris INTEGER NOT NULL,
                        secret BLOB NOT NULL,
                        previous_secret BLOB,
                        previous_secret_ends INTEGER,
                        created INTEGER NOT NULL,
                        ended INTEGER,
                        -- When its receiver asked for a pause, and until when
                        pause_since INTEGER,
                        pause_until INTEGER,
                        missed INTEGER NOT NULL DEFAULT 0
                    );
                    CREATE INDEX webhooks_of_token ON webhooks (token);
                    CREATE TABLE webhook_messages (
                        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
                        id TEXT NOT NULL UNIQUE,
                        webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
                        type TEXT NOT NULL,
                        -- What device.changed is about
                        device TEXT,
                        -- NULL after the end
                        body TEXT,
                        state TEXT NOT NULL,
                        attempts INTEGER NOT NULL,
                        -- When the state began, and when it ends if it is 'waiting'
                        since INTEGER NOT NULL,
                        due INTEGER,
                        -- The status of the last answer
                        status INTEGER
                    );
                    CREATE INDEX webhook_messages_due ON webhook_messages (webhook, state, due, sequence);
                    -- The last changes of commands that messages were made from
                    CREATE TABLE webhook_positions (account TEXT PRIMARY KEY NOT NULL, sequence INTEGER NOT NULL) WITHOUT ROWID;
                    """
            )
        }
    }

    /// Those whose token counts. Others go with the next change of the tokens.
    private static let selectWebhooks = """
        SELECT webhooks.id AS webhook, url, types, uris, webhooks.created AS begun, ended, missed, token, tokens.*,
            (SELECT count(*) FROM webhook_messages WHERE webhook = webhooks.id AND state IN ('waiting', 'sending')) AS waiting
        FROM webhooks LEFT JOIN tokens ON tokens.id = token
        WHERE (token IS NULL OR tokens.expires > ?)
        """

    /// All webhooks, the oldest first.
    func webhooks() async throws -> [Webhook] {
        try await database.read { database in
            try Row.fetchAll(database, sql: "\(Self.selectWebhooks) ORDER BY begun, webhook", arguments: .bound(Self.milliseconds(.now)))
                .map(Self.webhook)
        }
    }

    /// Those that get messages.
    func activeWebhooks() async throws -> [Webhook] { try await webhooks().filter { $0.ended == nil } }

    /// Whether there is a webhook, also of a token whose time is over by the present clock.
    func hasWebhooks() async throws -> Bool {
        try await database.read { try Bool.fetchOne($0, sql: "SELECT EXISTS (SELECT 1 FROM webhooks WHERE ended IS NULL)") ?? false }
    }

    func activeWebhookIDs() async throws -> [String] {
        try await database.read {
            try String.fetchAll($0, sql: Self.selectActive, arguments: .bound(Self.milliseconds(.now)))
        }
    }

    private static let selectActive = """
        SELECT webhooks.id FROM webhooks LEFT JOIN tokens ON tokens.id = token
        WHERE ended IS NULL AND (token IS NULL OR tokens.expires > ?)
        """

    private static func webhook(_ row: Row) throws -> Webhook {
        Webhook(
            id: try row.required("webhook"),
            token: (row["token"] as String?) == nil ? nil : try token(row),
            url: try row.required("url"),
            types: Set(try list(row.required("types")).compactMap(WebhookEventType.init)),
            includesURI: try row.required("uris"),
            created: date(try row.required("begun")),
            ended: (row["ended"] as Int64?).map(date),
            missed: try row.required("missed"),
            waiting: try row.required("waiting")
        )
    }

    /// - Parameter positions: The last change of the commands of each account. The webhook gets what comes after.
    /// - Throws: `APIRefusal`: `limitExceeded`.
    func add(_ webhook: Webhook, _ secret: WebhookSecret, from positions: [String: CommandSequence]) async throws {
        try await database.write { database in
            try database.execute(sql: "DELETE FROM tokens WHERE expires <= ?", arguments: .bound(Self.milliseconds(.now)))
            guard (try Int.fetchOne(database, sql: "SELECT count(*) FROM webhooks") ?? 0) < Webhook.maximum else {
                throw APIRefusal(
                    429,
                    AgentError("limitExceeded", "there are \(Webhook.maximum) webhooks; remove one: DELETE /v1/webhooks/{id}", .failed)
                )
            }
            // Without a webhook, nobody has followed the changes.
            if try !Self.hasActiveWebhook(database) { try database.execute(sql: "DELETE FROM webhook_positions") }
            for (account, position) in positions {
                try database.execute(
                    sql: "INSERT OR IGNORE INTO webhook_positions (account, sequence) VALUES (?, ?)",
                    arguments: .bound(account, position.rawValue)
                )
            }
            try database.execute(
                sql: "INSERT INTO webhooks (id, token, url, types, uris, secret, created) VALUES (?, ?, ?, ?, ?, ?, ?)",
                arguments: .bound(
                    webhook.id,
                    webhook.token?.id,
                    webhook.url,
                    Self.json(webhook.types.map(\.rawValue)),
                    webhook.includesURI,
                    Data(secret.bytes),
                    Self.milliseconds(webhook.created)
                )
            )
        }
    }

    func removeWebhook(_ id: String) async throws {
        try await database.write { try $0.execute(sql: "DELETE FROM webhooks WHERE id = ?", arguments: .bound(id)) }
    }

    /// Stores a new secret. The one before is used too, for a while.
    /// - Throws: `AgentError`: `notFound`.
    func rotateSecret(of id: String, at now: Date) async throws -> WebhookSecret {
        try await database.write { database in
            guard let row = try Row.fetchOne(database, sql: "SELECT * FROM webhooks WHERE id = ?", arguments: .bound(id)) else {
                throw AgentError("notFound", "there is no such webhook: see GET /v1/webhooks", .notFound)
            }
            let secret = try Self.secret(row).rotated(at: now)
            try database.execute(
                sql: "UPDATE webhooks SET secret = ?, previous_secret = ?, previous_secret_ends = ? WHERE id = ?",
                arguments: .bound(
                    Data(secret.bytes),
                    secret.previous.map { Data($0.bytes) },
                    secret.previous.map { Self.milliseconds($0.until) },
                    id
                )
            )
            return secret
        }
    }

    static func secret(_ row: Row) throws -> WebhookSecret {
        var secret = WebhookSecret(bytes: try row.bytes("secret"))
        if let bytes = try row.optionalBytes("previous_secret"), let end = row["previous_secret_ends"] as Int64? {
            secret.previous = (bytes, date(end))
        }
        return secret
    }

    // MARK: Positions

    private static func hasActiveWebhook(_ database: Database) throws -> Bool {
        try Row.fetchOne(
            database,
            sql: "\(selectActive) LIMIT 1",
            arguments: .bound(milliseconds(.now))
        ) != nil
    }

    /// The last change of an account's commands that messages were made from; `nil` if nobody follows them.
    func webhookPosition(of account: String) async throws -> CommandSequence? {
        try await database.read { try Self.position(of: account, $0) }
    }

    private static func position(of account: String, _ database: Database) throws -> CommandSequence? {
        try Int64.fetchOne(database, sql: "SELECT sequence FROM webhook_positions WHERE account = ?", arguments: .bound(account))
            .map(CommandSequence.init(rawValue:))
    }

    /// Begins to follow the commands of an account, if there is a webhook.
    /// - Returns: Whether there is one.
    func beginCommands(of account: String, at position: CommandSequence) async throws -> Bool {
        try await database.write { database in
            guard try Self.hasActiveWebhook(database) else { return false }
            try database.execute(
                sql: "INSERT OR IGNORE INTO webhook_positions (account, sequence) VALUES (?, ?)",
                arguments: .bound(account, position.rawValue)
            )
            return true
        }
    }

    /// Goes on, if nobody else has.
    /// - Returns: Whether messages of these changes are to be stored.
    private static func move(_ account: String, _ from: CommandSequence, _ to: CommandSequence, _ database: Database) throws -> Bool {
        // Another webhook may have begun anew, after the last one had gone.
        guard try position(of: account, database) == from else { return false }
        guard try hasActiveWebhook(database) else {
            try database.execute(sql: "DELETE FROM webhook_positions")
            return false
        }
        try database.execute(
            sql: "UPDATE webhook_positions SET sequence = ? WHERE account = ?",
            arguments: .bound(to.rawValue, account)
        )
        return true
    }

    /// Goes on after changes that are not kept any more.
    func skipCommands(of account: String, from position: CommandSequence, to next: CommandSequence, missed: Int) async throws {
        try await database.write { database in
            guard try Self.move(account, position, next, database) else { return }
            try database.execute(
                sql: "UPDATE webhooks SET missed = missed + ? WHERE ended IS NULL AND types LIKE '%command.%'",
                arguments: .bound(missed)
            )
        }
    }

    // MARK: Messages

    /// Stores the messages of changes of commands, and that they were made from these.
    func addMessages(
        _ messages: [WebhookMessage],
        of account: String,
        from position: CommandSequence,
        to next: CommandSequence,
        at now: Date
    ) async throws {
        try await database.write { database in
            guard try Self.move(account, position, next, database) else { return }
            try Self.add(messages, at: now, database)
        }
    }

    /// Stores messages about devices.
    func addMessages(_ messages: [WebhookMessage], at now: Date) async throws {
        try await database.write { try Self.add(messages, at: now, $0) }
    }

    private static func add(_ messages: [WebhookMessage], at now: Date, _ database: Database) throws {
        for message in messages {
            // A webhook that has gone meanwhile gets none, and a device that is to be read anyway needs no second message.
            let id = "msg_" + Base64.url.encode((0..<16).map { _ in UInt8.random(in: .min ... .max) })
            try database.execute(
                sql: """
                    INSERT INTO webhook_messages (id, webhook, type, device, body, state, attempts, since, due)
                    SELECT ?1, id, ?3, ?4, ?5, 'waiting', 0, ?6, ?6 FROM webhooks WHERE id = ?2 AND ended IS NULL AND NOT EXISTS (
                        SELECT 1 FROM webhook_messages
                        WHERE ?4 IS NOT NULL AND webhook = ?2 AND state = 'waiting' AND attempts = 0 AND device = ?4)
                    """,
                arguments: .bound(id, message.webhook, message.type.rawValue, message.device, message.body, milliseconds(now))
            )
        }
        for webhook in Set(messages.map(\.webhook)) {
            // The oldest ones go: a later message of a command says more.
            try database.execute(
                sql: """
                    DELETE FROM webhook_messages WHERE webhook = ?1 AND state IN ('waiting', 'sending') AND sequence <= (
                        SELECT sequence FROM webhook_messages WHERE webhook = ?1 AND state IN ('waiting', 'sending')
                        ORDER BY sequence DESC LIMIT 1 OFFSET ?2)
                    """,
                arguments: .bound(webhook, Webhook.maximumWaiting)
            )
            guard database.changesCount > 0 else { continue }
            try database.execute(
                sql: "UPDATE webhooks SET missed = missed + ? WHERE id = ?",
                arguments: .bound(database.changesCount, webhook)
            )
        }
    }
}
