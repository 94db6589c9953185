// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

/// The messages of webhooks on their way.
extension AgentStore {
    /// A message with all that an attempt needs.
    struct OutgoingMessage: Sendable {
        fileprivate var sequence: Int64
        fileprivate var webhook: String
        fileprivate var delivery: WebhookDelivery
        /// The same in each attempt.
        var id: String
        var body: String
        var url: String
        var mayBePrivate: Bool
        var secret: WebhookSecret
    }

    /// What a sender does next.
    enum NextStep: Sendable {
        case send(OutgoingMessage)
        /// In seconds; `nil` until there is a message.
        case wait(TimeInterval?)
        /// The webhook has ended.
        case end
    }

    /// The next step of the only sender of a webhook. A message that is to be sent is stored as being sent.
    func nextStep(of webhook: String, at now: Date) async throws -> NextStep {
        try await database.write { database in
            let row = try Row.fetchOne(
                database,
                sql: """
                    SELECT webhooks.* FROM webhooks LEFT JOIN tokens ON tokens.id = token
                    WHERE webhooks.id = ? AND ended IS NULL AND (token IS NULL OR tokens.expires > ?)
                    """,
                arguments: .bound(webhook, Self.milliseconds(now))
            )
            guard let row else { return .end }
            try Self.adjust(webhook, at: now, database)
            if let pause = try Self.pause(of: row, at: now, database), pause > 0 { return .wait(pause) }
            guard let first = try Self.first(of: webhook, at: now, database) else { return .wait(nil) }
            var delivery = try Self.delivery(first)
            guard delivery.begin(at: now) else { return .wait(delivery.left(at: now)) }
            let sequence: Int64 = try first.required("sequence")
            try Self.store(delivery, of: sequence, database)
            return .send(
                OutgoingMessage(
                    sequence: sequence,
                    webhook: webhook,
                    delivery: delivery,
                    id: try first.required("id"),
                    body: try first.required("body"),
                    url: try row.required("url"),
                    mayBePrivate: (row["token"] as String?) == nil,
                    secret: try Self.secret(row)
                )
            )
        }
    }

    /// The oldest message whose time has come, else the one whose time comes first.
    private static func first(of webhook: String, at now: Date, _ database: Database) throws -> Row? {
        let waiting = "SELECT * FROM webhook_messages WHERE webhook = ? AND state = 'waiting'"
        return try Row.fetchOne(
            database,
            sql: "\(waiting) AND due <= ? ORDER BY sequence LIMIT 1",
            arguments: .bound(webhook, milliseconds(now))
        ) ?? Row.fetchOne(database, sql: "\(waiting) ORDER BY due LIMIT 1", arguments: .bound(webhook))
    }

    /// Repairs what an end of the agent or a change of the clock has left.
    private static func adjust(_ webhook: String, at now: Date, _ database: Database) throws {
        let rows = try Row.fetchAll(
            database,
            sql: "SELECT * FROM webhook_messages WHERE webhook = ?1 AND (state = 'sending' OR state = 'waiting' AND since > ?2)",
            arguments: .bound(webhook, milliseconds(now))
        )
        for row in rows {
            var delivery = try delivery(row)
            delivery.adjust(at: now)
            try store(delivery, of: row.required("sequence"), database)
        }
    }

    /// How long a receiver wants no message, in seconds; `nil` if it has not said so.
    private static func pause(of row: Row, at now: Date, _ database: Database) throws -> TimeInterval? {
        guard let since = row["pause_since"] as Int64?, let until = row["pause_until"] as Int64? else { return nil }
        var wait = StoredWait(since: date(since), until: date(until))
        if now < wait.since {
            wait.adjust(at: now)
            try store(wait, asPauseOf: row.required("id"), database)
        }
        return wait.left(at: now)
    }

    private static func store(_ pause: StoredWait, asPauseOf webhook: String, _ database: Database) throws {
        try database.execute(
            sql: "UPDATE webhooks SET pause_since = ?, pause_until = ? WHERE id = ?",
            arguments: .bound(milliseconds(pause.since), milliseconds(pause.until), webhook)
        )
    }

    /// Stores what became of an attempt.
    func end(_ message: OutgoingMessage, _ answer: WebhookDelivery.Answer, at now: Date) async throws {
        var delivery = message.delivery
        let effect = delivery.end(answer, at: now)
        try await database.write { [delivery] database in
            try Self.store(delivery, of: message.sequence, database)
            var status: Int?
            if case .status(let number, _) = answer { status = number }
            try database.execute(
                sql: "UPDATE webhook_messages SET status = ? WHERE sequence = ?",
                arguments: .bound(status, message.sequence)
            )
            switch effect {
            case .nothing: break
            case .pause(let wait): try Self.store(wait, asPauseOf: message.webhook, database)
            case .end:
                try database.execute(
                    sql: "UPDATE webhooks SET ended = ? WHERE id = ?",
                    arguments: .bound(Self.milliseconds(now), message.webhook)
                )
                try database.execute(
                    sql: "DELETE FROM webhook_messages WHERE webhook = ? AND state IN ('waiting', 'sending')",
                    arguments: .bound(message.webhook)
                )
            }
            try database.execute(
                sql: """
                    DELETE FROM webhook_messages WHERE sequence IN (
                        SELECT sequence FROM webhook_messages WHERE webhook = ? AND state IN ('delivered', 'abandoned')
                        ORDER BY since DESC, sequence DESC LIMIT -1 OFFSET ?)
                    """,
                arguments: .bound(message.webhook, Webhook.kept)
            )
        }
    }

    /// What was sent, the latest first.
    func deliveries(of webhook: String, limit: Int) async throws -> [WebhookDeliveryResult] {
        try await database.read { database in
            try Row.fetchAll(
                database,
                sql: "SELECT * FROM webhook_messages WHERE webhook = ? AND attempts > 0 ORDER BY since DESC, sequence DESC LIMIT ?",
                arguments: .bound(webhook, limit)
            ).map { row in
                let delivery = try Self.delivery(row)
                var result = WebhookDeliveryResult(
                    id: try row.required("id"),
                    type: try row.required("type"),
                    state: .sending,
                    attempts: delivery.attempts,
                    status: row["status"],
                    time: Self.date(try row.required("since"))
                )
                switch delivery {
                case .waiting(let wait, _): (result.state, result.next) = (.waiting, wait.until)
                case .sending: result.state = .sending
                case .delivered: result.state = .delivered
                case .abandoned: result.state = .abandoned
                }
                return result
            }
        }
    }

    // MARK: Columns

    private static func delivery(_ row: Row) throws -> WebhookDelivery {
        let since = date(try row.required("since"))
        let attempts: Int = try row.required("attempts")
        switch try row.required("state") as String {
        case "waiting": return .waiting(StoredWait(since: since, until: date(try row.required("due"))), attempts: attempts)
        case "sending": return .sending(since: since, attempts: attempts)
        case "delivered": return .delivered(since, attempts: attempts)
        case "abandoned": return .abandoned(since, attempts: attempts)
        default: throw ColumnError()
        }
    }

    private static func store(_ delivery: WebhookDelivery, of sequence: Int64, _ database: Database) throws {
        let state: String
        let since: Date
        var due: Date?
        switch delivery {
        case .waiting(let wait, _): (state, since, due) = ("waiting", wait.since, wait.until)
        case .sending(let time, _): (state, since) = ("sending", time)
        case .delivered(let time, _): (state, since) = ("delivered", time)
        case .abandoned(let time, _): (state, since) = ("abandoned", time)
        }
        // Nobody needs the content of what has ended.
        try database.execute(
            sql: """
                UPDATE webhook_messages SET state = ?1, attempts = ?2, since = ?3, due = ?4,
                    body = CASE WHEN ?1 IN ('delivered', 'abandoned') THEN NULL ELSE body END
                WHERE sequence = ?5
                """,
            arguments: .bound(state, delivery.attempts, milliseconds(since), due.map(milliseconds), sequence)
        )
    }
}
