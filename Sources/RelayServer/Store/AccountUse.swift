// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayProtocol

/// How many bytes each account has stored in commands, outcomes and registrations. Read once when the database is opened, and kept with
/// every write; a write that is undone takes its change back. Used by the store's thread alone.
final class AccountUse {
    /// What a row counts beyond its blobs.
    static let overhead = 512

    private var committed: [AccountID: Int]
    /// By the group of work that is not committed yet.
    private var group: [AccountID: Int] = [:]
    /// By the work that runs.
    private var work: [AccountID: Int] = [:]

    init(_ committed: [AccountID: Int] = [:]) { self.committed = committed }

    /// Reads what is stored.
    convenience init(reading database: Database) throws {
        let rows = try Row.fetchCursor(
            database,
            sql: """
                SELECT account, total(bytes) FROM (
                    SELECT account, \(Self.overhead) + CASE state
                        WHEN 2 THEN coalesce(length(receipt), 0) + coalesce(length(reply), 0) ELSE size END AS bytes
                    FROM commands
                    UNION ALL
                    SELECT endpoints.account, \(Self.overhead) + length(registration)
                    FROM registrations JOIN endpoints ON endpoints.id = registrations.endpoint
                ) GROUP BY account
                """
        )
        var stored: [AccountID: Int] = [:]
        while let row = try rows.next() { stored[AccountID(row[0])] = Int(clamping: Int64(row[1] as Double)) }
        self.init(stored)
    }

    static func bytes(of command: MailboxCommand) -> Int { overhead + (command.isFinal ? command.resultSize : command.command.size) }

    func bytes(of account: AccountID) -> Int {
        committed[account, default: 0] + group[account, default: 0] + work[account, default: 0]
    }

    func add(_ bytes: Int, to account: AccountID) {
        if bytes != 0 { work[account, default: 0] += bytes }
    }

    func workSucceeded() { move(&work, into: &group) }
    func workUndone() { work = [:] }
    func groupCommitted() { move(&group, into: &committed) }

    func groupUndone() {
        group = [:]
        work = [:]
    }

    private func move(_ changes: inout [AccountID: Int], into sums: inout [AccountID: Int]) {
        guard !changes.isEmpty else { return }
        for (account, bytes) in changes {
            let sum = sums[account, default: 0] + bytes
            sums[account] = sum == 0 ? nil : sum
        }
        changes.removeAll(keepingCapacity: true)
    }
}
