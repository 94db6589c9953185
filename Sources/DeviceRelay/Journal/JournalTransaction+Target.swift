// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
package import RelayProtocol
import RelayStorage

// Received commands: the stored part of `CommandTarget`.
extension JournalTransaction {
    /// The receipt of a command, and its reply if there is one.
    package struct Result: Hashable, Sendable {
        package var receipt: [UInt8]
        package var reply: [UInt8]?

        package init(receipt: [UInt8], reply: [UInt8]?) {
            self.receipt = receipt
            self.reply = reply
        }
    }

    /// The sealed command, and the signed record of its sender, whose key seals the reply.
    package struct ReceivedContent: Hashable, Sendable {
        package var blob: [UInt8]
        package var record: [UInt8]

        package init(blob: [UInt8], record: [UInt8]) {
            self.blob = blob
            self.record = record
        }
    }

    /// Stores a row of `CommandTarget`.
    /// - Parameters:
    ///   - highest: The lane's new highest number, if it changed. The lane's latest id changes with it.
    ///   - content: The content of a new row.
    ///   - result: The result of an answered row.
    package func persist(_ row: CommandTarget.Row, highest: UInt64?, content: ReceivedContent? = nil, result: Result? = nil) throws {
        let command = row.command
        guard command.lane.target == journal.endpoint else { throw JournalError.otherEndpoint("a command") }
        if let highest {
            try run(
                """
                INSERT INTO lanes (sender, app, highest, latest) VALUES (?, ?, ?, ?)
                ON CONFLICT (sender, app) DO UPDATE SET (highest, latest) = (max(highest, excluded.highest), max(latest, excluded.latest))
                """,
                [command.lane.sender.column, command.lane.appID, NumberColumn.encode(highest), command.id.column]
            )
        }
        var outcome: CommandOutcome?
        let state: String
        switch row.state {
        case .received: state = "received"
        case .handling: state = "handling"
        case .answered(let value), .settled(let value): (state, outcome) = ("answered", value)
        }
        try run(
            """
            INSERT INTO received_commands (
                sender, id, app, number, created, expires, digest, size, state, outcome, outcome_reason, direct, settled)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (sender, id) DO UPDATE SET (state, outcome, outcome_reason, settled) =
                (excluded.state, excluded.outcome, excluded.outcome_reason, excluded.settled)
            """,
            [
                command.lane.sender.column, command.id.column, command.lane.appID, NumberColumn.encode(command.number), command.created,
                command.expires, command.digest.column, command.size, state, outcome?.column, outcome?.reasonColumn,
                !row.paths.contains(.relay), row.isSettled,
            ]
        )
        let key: [(any DatabaseValueConvertible)?] = [command.lane.sender.column, command.id.column]
        if let content {
            try run(
                "INSERT OR REPLACE INTO received_blobs (sender, id, blob, record) VALUES (?, ?, ?, ?)",
                key + [Data(content.blob), Data(content.record)]
            )
        }
        if let result {
            try run(
                "INSERT OR REPLACE INTO results (sender, id, receipt, reply) VALUES (?, ?, ?, ?)",
                key + [Data(result.receipt), result.reply.map { Data($0) }]
            )
        }
    }

    /// Deletes a row with its content and result.
    package func remove(_ key: CommandKey) throws {
        try run(
            "DELETE FROM received_commands WHERE sender = ? AND id = ?",
            [key.sender.column, key.id.column]
        )
    }

    /// Deletes a lane whose sender is gone.
    package func removeLane(_ lane: CommandLane) throws {
        try run("DELETE FROM lanes WHERE sender = ? AND app = ?", [lane.sender.column, lane.appID])
    }

    package func receivedContent(_ key: CommandKey) throws -> ReceivedContent? {
        try Row.fetchOne(
            statement("SELECT blob, record FROM received_blobs WHERE sender = ? AND id = ?"),
            arguments: .bound(key.sender.column, key.id.column)
        ).map { ReceivedContent(blob: try $0.bytes("blob"), record: try $0.bytes("record")) }
    }

    package func result(_ key: CommandKey) throws -> Result? {
        try Row.fetchOne(
            statement("SELECT receipt, reply FROM results WHERE sender = ? AND id = ?"),
            arguments: .bound(key.sender.column, key.id.column)
        ).map { Result(receipt: try $0.bytes("receipt"), reply: try $0.optionalBytes("reply")) }
    }

    /// Loads the `CommandTarget`.
    package func target() throws -> CommandTarget {
        var positions: [CommandLane: CommandTarget.LanePosition] = [:]
        for row in try Row.fetchAll(statement("SELECT * FROM lanes")) {
            let lane = CommandLane(sender: try row.endpoint("sender"), target: journal.endpoint, appID: try row.required("app"))
            positions[lane] = .init(number: try row.number("highest"), latest: try row.commandID("latest"))
        }
        let rows = try Row.fetchAll(statement(Self.selectReceived)).map { row in
            let sender = try row.endpoint("sender")
            return CommandTarget.Row(
                restoring: try row.descriptor(sender: sender, target: journal.endpoint),
                state: try receivedState(row),
                paths: [try row.required("direct", as: Bool.self) ? .direct(sender) : .relay],
                replyBytes: try row.required("reply_bytes")
            )
        }
        return CommandTarget(limits: journal.limits, positions: positions, rows: rows)
    }

    private static let selectReceived = """
        SELECT received_commands.*, coalesce(length(results.reply), 0) AS reply_bytes
        FROM received_commands LEFT JOIN results USING (sender, id)
        """

    private func receivedState(_ row: Row) throws -> CommandTarget.State {
        switch try row.required("state", as: String.self) {
        case "received": .received
        case "handling": .handling
        case "answered": try row.required("settled", as: Bool.self) ? .settled(row.outcome()) : .answered(row.outcome())
        default: throw ColumnError()
        }
    }
}
