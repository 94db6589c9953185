// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Commands, as time passes and endpoints go.
extension RelayCore {
    /// Commands ended in one transaction, so that a backlog does not hold others up.
    private static let mostDueCommands = 64

    /// Ends what has expired, gives up what nobody answered for, and forgets what nobody acknowledged.
    func endCommands() {
        let begins = change { state in
            guard state.admission != nil, !state.isExpiring else { return false }
            state.isExpiring = true
            return true
        }
        guard begins else { return }
        let now = now
        transact(for: nil) { store in
            let time = now().count
            return try store.dueCommands(at: time, limit: Self.mostDueCommands).compactMap { key in
                try store.change(key, { $0.timePassed(now: time) }).map { (key.account, $0) }
            }
        } then: { [self] (state, result: Result<[(AccountID, CommandChange)], any Error>) in
            state.isExpiring = false
            guard case .success(let changes) = result else { return }
            for (account, change) in changes { perform(change, in: account, &state) }
            if changes.count == Self.mostDueCommands { state.outgoing.append(.call { self.endCommands() }) }
        }
    }

    /// An endpoint was removed for good: what it sent is cancelled, what is for it will not be answered.
    static func endCommands(
        of endpoint: EndpointID,
        in account: AccountID,
        _ store: any StoreTransaction,
        now: Int64
    ) throws -> [CommandChange] {
        var changes: [CommandChange] = []
        for command in try store.mailbox(of: endpoint, account: account) {
            let key = StoredCommandKey(account: account, command: command.key)
            if let change = try store.change(key, { $0.targetRemoved(now: now) }) { changes.append(change) }
        }
        for command in try store.commands(from: endpoint, isFinal: false, account: account) {
            let key = StoredCommandKey(account: account, command: command)
            if let change = try store.change(key, { $0.cancel(now: now) }) { changes.append(change) }
        }
        // Nobody is left to acknowledge them.
        for command in try store.commands(from: endpoint, isFinal: true, account: account) {
            try store.removeCommand(StoredCommandKey(account: account, command: command))
        }
        return changes
    }
}
