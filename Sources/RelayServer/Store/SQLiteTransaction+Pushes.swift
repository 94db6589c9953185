// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

/// Rows in SQLite: push registrations, and what waits for sleeping endpoints.
extension SQLiteTransaction {
    private static let pushColumns = """
        endpoint, account, app, name, channel, registered, gone, first_wake, last_wake, last_class, accepted, suppressed, response, due,
        refused, names
        """

    private func push(_ row: Row) throws -> PushRow {
        var push = PushRow(
            endpoint: try row.endpoint(at: 0),
            account: AccountID(row[1]),
            appID: row[2],
            displayName: row[3],
            channel: try PushRegistration(column: row[4]),
            registered: row[5]
        )
        push.isGone = row[6]
        let urgency: String? = row[9]
        let last: Int64? = row[8]
        push.schedule = WakeSchedule(
            first: row[7],
            last: try last.map { time in
                guard let urgency = urgency.flatMap({ WakePayload.Urgency(rawValue: $0) }) else { throw ColumnError() }
                return .init(time: time, urgency: urgency)
            }
        )
        push.accepted = row[10]
        push.suppressed = row[11]
        push.response = row[12]
        push.due = row[13]
        push.isRefused = row[14]
        push.showsNames = row[15]
        return push
    }

    func push(of endpoint: EndpointID) throws -> PushRow? {
        try Row.fetchOne(
            statement("SELECT \(Self.pushColumns) FROM pushes WHERE endpoint = ?"),
            arguments: .bound(endpoint.column)
        ).map { try push($0) }
    }

    func pushes(of account: AccountID) throws -> [PushRow] {
        try Array(
            Row.fetchCursor(
                statement("SELECT \(Self.pushColumns) FROM pushes WHERE account = ? ORDER BY endpoint"),
                arguments: .bound(account.rawValue)
            ).map { try push($0) }
        )
    }

    func put(_ push: PushRow) throws {
        try run(
            """
            INSERT INTO pushes (\(Self.pushColumns), polls) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (endpoint) DO UPDATE SET app = excluded.app, name = excluded.name, channel = excluded.channel,
                registered = excluded.registered, gone = excluded.gone, first_wake = excluded.first_wake,
                last_wake = excluded.last_wake, last_class = excluded.last_class, accepted = excluded.accepted,
                suppressed = excluded.suppressed, response = excluded.response, due = excluded.due, refused = excluded.refused,
                names = excluded.names, polls = excluded.polls
                WHERE account = excluded.account
            """,
            [
                push.endpoint.column, push.account.rawValue, push.appID, push.displayName, push.channel.column, push.registered,
                push.isGone, push.schedule.first, push.schedule.last?.time, push.schedule.last?.urgency.rawValue, push.accepted,
                push.suppressed, push.response, push.due, push.isRefused,
                push.showsNames, push.channel.kind == .polling,
            ]
        )
        guard database.changesCount == 1 else { throw RowError.ofOtherAccount }
    }

    func duePushes(at time: Int64, limit: Int) throws -> [PushKey] {
        try Row.fetchAll(
            statement("SELECT account, endpoint FROM pushes WHERE due <= ? ORDER BY due, endpoint LIMIT ?"),
            arguments: .bound(time, limit)
        ).map { PushKey(account: AccountID($0[0]), endpoint: try $0.endpoint(at: 1)) }
    }

    func unwokenPushes(after endpoint: EndpointID?, at time: Int64, limit: Int) throws -> [UnwokenPush] {
        try Row.fetchAll(
            statement(
                """
                SELECT account, endpoint, EXISTS (
                    SELECT 1 FROM commands
                    WHERE account = pushes.account AND target = pushes.endpoint AND state < 2 AND expires > ?
                )
                FROM pushes
                WHERE endpoint > ? AND polls = 0 AND gone = 0
                    AND (last_wake IS NULL OR accepted IS NULL OR accepted < last_wake)
                ORDER BY endpoint LIMIT ?
                """
            ),
            arguments: .bound(time, endpoint?.column ?? Data(), limit)
        ).map { UnwokenPush(key: PushKey(account: AccountID($0[0]), endpoint: try $0.endpoint(at: 1)), waits: $0[2]) }
    }

    func restartWakes(at time: Int64) throws {
        try run(
            """
            UPDATE pushes SET due = ?, suppressed = NULL, first_wake = NULL, last_wake = NULL, last_class = NULL
            WHERE polls = 0 AND gone = 0 AND EXISTS (
                SELECT 1 FROM commands
                WHERE account = pushes.account AND target = pushes.endpoint AND state < 2 AND expires > ?
            )
            """,
            [time, time]
        )
    }

    func waiting(for target: EndpointID, account: AccountID, at time: Int64) throws -> WaitingCommands? {
        let row = try Row.fetchOne(
            statement(
                """
                SELECT max(CASE WHEN urgent THEN expires END), max(expires)
                FROM commands WHERE account = ? AND target = ? AND state < 2 AND expires > ?
                """
            ),
            arguments: .bound(account.rawValue, target.column, time)
        )
        guard let row, let latest: Int64 = row[1] else { return nil }
        guard let urgent: Int64 = row[0] else { return WaitingCommands(urgency: .background, expires: latest) }
        return WaitingCommands(urgency: .urgent, expires: urgent)
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
