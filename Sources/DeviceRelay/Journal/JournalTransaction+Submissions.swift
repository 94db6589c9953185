// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayProtocol
import RelayStorage

// The keys of submissions, and the changes of commands.
extension JournalTransaction {
    /// The command that an earlier submission with this key has stored.
    /// - Throws: `CommandFailure`: `keyReused` if that one had another request.
    func submitted(_ key: SubmissionKey, now: Int64) throws -> SentCommand? {
        let row = try Row.fetchOne(
            statement("SELECT request, command, ends FROM submissions WHERE principal = ? AND key = ? AND attempt = ?"),
            arguments: .bound(key.principal, key.key, key.attempt)
        )
        guard let row, try row.required("ends") as Int64 > now else { return nil }
        guard try row.digest("request") == key.request else { throw CommandFailure.keyReused }
        // The key keeps its command, so there is one.
        return try sent(try row.commandID("command"))
    }

    /// Stores the key of a command that is stored in the same transaction.
    /// - Throws: `CommandFailure`: `tooManyKeys`.
    func keep(_ key: SubmissionKey, of command: CommandDescriptor) throws {
        try run("DELETE FROM submissions WHERE ends <= ?", [command.created])
        guard (try Int.fetchOne(statement("SELECT count(*) FROM submissions")) ?? 0) < SubmissionKey.maximum else {
            throw CommandFailure.tooManyKeys(SubmissionKey.maximum)
        }
        try run(
            "INSERT INTO submissions (principal, key, attempt, request, command, ends) VALUES (?, ?, ?, ?, ?, ?)",
            [
                key.principal, key.key, key.attempt, key.request.column, command.id.column,
                max(command.created + SubmissionKey.life, command.expires),
            ]
        )
    }

    func submissions(of principal: String) throws -> [CommandID] {
        try Row.fetchAll(statement("SELECT command FROM submissions WHERE principal = ?"), arguments: .bound(principal))
            .map { try $0.commandID("command") }
    }

    /// The next changes of commands after one of them.
    func commandChanges(after sequence: CommandSequence) throws -> CommandChanges {
        let last = try lastCommandChange()
        let first = try Int64.fetchOne(statement("SELECT min(sequence) FROM command_changes")) ?? last.rawValue + 1
        // A sequence from the future was read before the journal was lost.
        guard sequence.rawValue >= first - 1, sequence <= last else { return CommandChanges(changes: [], hasGap: true) }
        let rows = try Row.fetchAll(
            statement("SELECT sequence, id, state, progress FROM command_changes WHERE sequence > ? ORDER BY sequence LIMIT 256"),
            arguments: .bound(sequence.rawValue)
        )
        return CommandChanges(changes: try rows.map(change), hasGap: false)
    }

    func lastCommandChange() throws -> CommandSequence {
        let last = try Int64.fetchOne(statement("SELECT seq FROM sqlite_sequence WHERE name = 'command_changes'"))
        return CommandSequence(rawValue: last ?? 0)
    }

    private func change(_ row: Row) throws -> CommandChange {
        let state: CommandChange.State
        switch try row.required("state") as String {
        case "prepared", "sent": state = .stored
        case "accepted":
            guard let progress = CommandProgress(column: try row.required("progress")) else { throw ColumnError() }
            state = .progress(progress.status)
        default: state = .ended
        }
        return CommandChange(sequence: CommandSequence(rawValue: try row.required("sequence")), id: try row.commandID("id"), state: state)
    }
}
