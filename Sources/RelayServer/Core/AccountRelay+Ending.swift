// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Commands, as time passes and endpoints go.
extension AccountRelay {
    /// The deadlines of some commands have come: they expire, are given up because nobody answered for them, or are forgotten because
    /// nobody acknowledged them.
    /// - Parameter answer: told whether it is stored.
    mutating func endDue(_ commands: [CommandKey], answer: @escaping @Sendable (Bool) -> Void) {
        let account = id
        transact { store, now in
            try commands.compactMap { command in
                try store.change(StoredCommandKey(account: account, command: command)) { $0.timePassed(now: now) }
            }
        } then: { relay, result in
            for change in (try? result.get()) ?? [] { relay.perform(change) }
            let isStored = (try? result.get()) != nil
            relay.perform(.call { answer(isStored) })
        }
    }
}

extension StoreTransaction {
    /// An endpoint was removed for good: what it sent is cancelled, what is for it will not be answered.
    func endCommands(of endpoint: EndpointID, in account: AccountID, now: Int64) throws -> [CommandChange] {
        var changes: [CommandChange] = []
        for command in try mailbox(of: endpoint, account: account) {
            let key = StoredCommandKey(account: account, command: command.key)
            if let change = try change(key, { $0.targetRemoved(now: now) }) { changes.append(change) }
        }
        for command in try commands(from: endpoint, isFinal: false, account: account) {
            let key = StoredCommandKey(account: account, command: command)
            if let change = try change(key, { $0.cancel(now: now) }) { changes.append(change) }
        }
        // Nobody is left to acknowledge them.
        for command in try commands(from: endpoint, isFinal: true, account: account) {
            try removeCommand(StoredCommandKey(account: account, command: command))
        }
        return changes
    }
}
