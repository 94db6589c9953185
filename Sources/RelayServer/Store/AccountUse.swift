// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How many bytes accounts have stored in commands, outcomes and registrations. Read once for each account, and kept with every write; a
/// write that is undone takes its change back. Used by the store's thread alone.
final class AccountUse {
    /// What a row counts beyond its blobs.
    static let overhead = 512

    /// Of the accounts that were asked for.
    private var committed: [AccountID: Int] = [:]
    /// By the group of work that is not committed yet.
    private var group: [AccountID: Int] = [:]
    /// By the work that runs.
    private var work: [AccountID: Int] = [:]

    static func bytes(of command: MailboxCommand) -> Int { overhead + (command.isFinal ? command.resultSize : command.command.size) }
    static func bytes(of registration: RegistrationRow) -> Int { overhead + registration.registration.count }

    /// - Parameter read: reads what is stored, with what is not committed yet.
    func bytes(of account: AccountID, otherwise read: () throws -> Int) rethrows -> Int {
        let changes = group[account, default: 0] + work[account, default: 0]
        if let known = committed[account] { return known + changes }
        let bytes = try read()
        committed[account] = bytes - changes
        return bytes
    }

    func add(_ bytes: Int, to account: AccountID) {
        if bytes != 0 { work[account, default: 0] += bytes }
    }

    func workSucceeded() {
        for (account, bytes) in work { group[account, default: 0] += bytes }
        workUndone()
    }

    func workUndone() { if !work.isEmpty { work.removeAll(keepingCapacity: true) } }

    func groupCommitted() {
        for (account, bytes) in group { committed[account]? += bytes }
        groupUndone()
    }

    func groupUndone() {
        if !group.isEmpty { group.removeAll(keepingCapacity: true) }
        workUndone()
    }
}
