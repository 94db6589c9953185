// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage

/// Rows of a store in a database: push registrations, and what waits for sleeping endpoints.
extension SQLTransaction {
    static var pushColumns: String {
        """
        endpoint, account, app, name, channel, registered, gone, first_wake, last_wake, last_class, accepted, suppressed, response, due,
            refused, names
        """
    }

    func push(_ row: Database.ResultRow) throws -> PushRow {
        var push = PushRow(
            endpoint: try row.endpoint(0),
            account: AccountID(try row.text(1)),
            appID: try row.text(2),
            displayName: try row.text(3),
            channel: try PushRegistration(column: try row.text(4)),
            registered: try row.integer(5)
        )
        push.isGone = try row.flag(6)
        push.schedule = WakeSchedule(
            first: try row.optional(7, row.integer),
            last: try row.optional(8, row.integer).map { time in
                guard let urgency = WakePayload.Urgency(rawValue: try row.text(9)) else { throw ColumnError() }
                return .init(time: time, urgency: urgency)
            }
        )
        push.accepted = try row.optional(10, row.integer)
        push.suppressed = try row.optional(11, row.integer)
        push.response = try row.optional(12, row.integer)
        push.due = try row.optional(13, row.integer)
        push.isRefused = try row.flag(14)
        push.showsNames = try row.flag(15)
        return push
    }

    func push(of endpoint: EndpointID) throws -> PushRow? {
        try database.first("SELECT \(Self.pushColumns) FROM pushes WHERE endpoint = ?", [endpoint.column], push)
    }

    func pushes(of account: AccountID) throws -> [PushRow] {
        try database.rows("SELECT \(Self.pushColumns) FROM pushes WHERE account = ? ORDER BY endpoint", [account.rawValue], push)
    }

    func put(_ push: PushRow) throws {
        let changes = try database.changes(
            """
            INSERT INTO pushes (\(Self.pushColumns), polls) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (endpoint) DO UPDATE SET app = excluded.app, name = excluded.name, channel = excluded.channel,
                registered = excluded.registered, gone = excluded.gone, first_wake = excluded.first_wake,
                last_wake = excluded.last_wake, last_class = excluded.last_class, accepted = excluded.accepted,
                suppressed = excluded.suppressed, response = excluded.response, due = excluded.due, refused = excluded.refused,
                names = excluded.names, polls = excluded.polls
                WHERE pushes.account = excluded.account
            """,
            [
                push.endpoint.column, push.account.rawValue, push.appID, push.displayName, push.channel.column, push.registered,
                push.isGone, push.schedule.first, push.schedule.last?.time, push.schedule.last?.urgency.rawValue, push.accepted,
                push.suppressed, push.response, push.due, push.isRefused,
                push.showsNames, push.channel.kind == .polling,
            ]
        )
        guard changes == 1 else { throw RowError.ofOtherAccount }
    }

    func duePushes(in scope: AccountScope, at time: Int64, limit: Int) throws -> [PushKey] {
        let (condition, values) = scope.condition(on: "pushes")
        return try database.rows(
            "SELECT account, endpoint FROM pushes WHERE due <= ? \(condition) ORDER BY due, endpoint LIMIT ?",
            [time] + values + [limit]
        ) { PushKey(account: AccountID(try $0.text(0)), endpoint: try $0.endpoint(1)) }
    }

    func unwokenPushes(
        in scope: AccountScope,
        after endpoint: EndpointID?,
        at time: Int64,
        limit: Int
    ) throws -> [UnwokenPush] {
        let (condition, values) = scope.condition(on: "pushes")
        return try database.rows(
            """
            SELECT account, endpoint, EXISTS (
                SELECT 1 FROM commands
                WHERE account = pushes.account AND target = pushes.endpoint AND state < 2 AND expires > ?
            )
            FROM pushes
            WHERE endpoint > ? AND polls = 0 AND gone = 0
                AND (last_wake IS NULL OR accepted IS NULL OR accepted < last_wake) \(condition)
            ORDER BY endpoint LIMIT ?
            """,
            [time, endpoint?.column ?? Data()] + values + [limit]
        ) { row in
            UnwokenPush(
                key: PushKey(account: AccountID(try row.text(0)), endpoint: try row.endpoint(1)),
                waits: try row.flag(2)
            )
        }
    }

    func restartWakes(at time: Int64) throws {
        let accounts = try database.rows("SELECT DISTINCT account FROM pushes WHERE \(Self.canBeWoken)", [time]) {
            AccountID(try $0.text(0))
        }
        for account in accounts {
            if Database.isShared { _ = try add(.restartWakes, of: account, time: time) } else { try restartWakes(of: account, at: time) }
        }
    }

    func restartWakes(of account: AccountID, at time: Int64) throws {
        try database.execute(
            """
            UPDATE pushes SET due = ?, suppressed = NULL, first_wake = NULL, last_wake = NULL, last_class = NULL
            WHERE account = ? AND \(Self.canBeWoken)
            """,
            [time, account.rawValue, time]
        )
    }

    /// The parameter is a time.
    private static var canBeWoken: String {
        """
        polls = 0 AND gone = 0 AND EXISTS (
            SELECT 1 FROM commands
            WHERE commands.account = pushes.account AND commands.target = pushes.endpoint AND state < 2 AND expires > ?
        )
        """
    }

    func waiting(for target: EndpointID, account: AccountID, at time: Int64) throws -> WaitingCommands? {
        let latest = try database.first(
            """
            SELECT max(CASE WHEN urgent = 1 THEN expires END), max(expires)
            FROM commands WHERE account = ? AND target = ? AND state < 2 AND expires > ?
            """,
            [account.rawValue, target.column, time]
        ) { row in (urgent: try row.optional(0, row.integer), any: try row.optional(1, row.integer)) }
        guard let any = latest?.any else { return nil }
        if let urgent = latest?.urgent { return WaitingCommands(urgency: .urgent, expires: urgent) }
        return WaitingCommands(urgency: .background, expires: any)
    }
}

extension PushRegistration {
    fileprivate var column: String {
        var json = JSONWriter()
        write(to: &json)
        return String(decoding: json.bytes, as: UTF8.self)
    }

    fileprivate init(column: String) throws {
        guard let channel = try? PushRegistration(json: JSONValue(parsing: Array(column.utf8))) else { throw ColumnError() }
        self = channel
    }
}
