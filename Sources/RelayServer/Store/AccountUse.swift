// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The bytes that each account has stored in commands, outcomes and registrations. The sum is read once per account and updated with
/// every write; a rollback restores it. The sums of more accounts than `capacity` are forgotten and read again. Used only by the store's
/// thread.
final class AccountUse {
    /// What a row counts in addition to its blobs.
    static let overhead = 512

    private let capacity: Int
    /// For accounts that were read.
    private var committed: [AccountID: Int] = [:]
    /// The changes of the current group, not committed yet.
    private var group: [AccountID: Int] = [:]
    /// The changes of the current transaction.
    private var work: [AccountID: Int] = [:]

    init(capacity: Int = 65_536) { self.capacity = capacity }

    /// For tests.
    var count: Int { committed.count }

    static func bytes(of command: MailboxCommand) -> Int { overhead + (command.isFinal ? command.resultSize : command.command.size) }
    static func bytes(of registration: RegistrationRow) -> Int { overhead + registration.registration.count }

    /// - Parameter read: reads the stored sum, with uncommitted changes.
    func bytes(of account: AccountID, otherwise read: () throws -> Int) rethrows -> Int {
        let changes = group[account, default: 0] + work[account, default: 0]
        if let known = committed[account] { return known + changes }
        let bytes = try read()
        // A sum that is read again includes the changes that are not committed, like this one.
        if committed.count >= capacity { committed.removeAll(keepingCapacity: true) }
        committed[account] = bytes - changes
        return bytes
    }

    func add(_ bytes: Int, to account: AccountID) {
        if bytes != 0 { work[account, default: 0] += bytes }
    }

    /// Forgets an account's sum, with what is not committed.
    func forget(_ account: AccountID) {
        committed[account] = nil
        group[account] = nil
        work[account] = nil
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
