// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The end of commands, by time or by the removal of endpoints.
extension AccountRelay {
    /// Handles commands whose deadlines have passed. They expire, are given up because the target did not answer, or are deleted because
    /// the sender did not acknowledge them.
    /// - Parameter answer: receives whether the result is stored.
    mutating func endDue(_ commands: [CommandKey], answer: @escaping @Sendable (Bool) -> Void) {
        let account = id
        transact { store, now in
            try commands.compactMap { command in
                try store.change(StoredCommandKey(account: account, command: command)) { $0.handleDeadlines(now: now) }
            }
        } then: { relay, result in
            for change in (try? result.get()) ?? [] { relay.perform(change) }
            let isStored = (try? result.get()) != nil
            relay.perform(.call { answer(isStored) })
        }
    }
}

extension AccountTransaction {
    /// Ends the commands of an endpoint that was removed: those it sent are cancelled, those for it will get no answer.
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
        // The sender that could acknowledge them is gone.
        for command in try commands(from: endpoint, isFinal: true, account: account) {
            try removeCommand(StoredCommandKey(account: account, command: command))
        }
        return changes
    }
}
