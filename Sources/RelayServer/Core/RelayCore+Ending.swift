// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Commands whose deadlines have passed, in all accounts.
extension RelayCore {
    /// The number of commands per pass, so that a backlog does not delay other work.
    private static let maximumDueCommands = 64

    /// Finds commands that have expired, were not answered or were not acknowledged, and passes them to their accounts.
    func endCommands() {
        let begins = node.withLock { node in
            defer { node.isEndingCommands = true }
            return !node.isEndingCommands
        }
        guard begins else { return }
        let now = now
        transact { store in
            try store.dueCommands(at: now().count, limit: Self.maximumDueCommands)
        } then: { [self] result in
            let due = (try? result.get()) ?? []
            let accounts = Dictionary(grouping: due, by: \.account)
            let pass = EndingPass(accounts: accounts.count, mayBeMore: due.count == Self.maximumDueCommands)
            guard !accounts.isEmpty else { return ended(pass) }
            for (account, keys) in accounts {
                perform(.endCommands(keys.map(\.command)), on: account) { [self] answer in
                    if pass.accountEnded(isStored: (try? answer.get()) != nil) { ended(pass) }
                }
            }
        }
    }

    private func ended(_ pass: EndingPass) {
        node.withLock { $0.isEndingCommands = false }
        if pass.mayBeMore { endCommands() }
    }
}

/// One pass over due commands, until each account has finished its part.
private final class EndingPass: Sendable {
    private let state: Mutex<(accounts: Int, mayBeMore: Bool)>

    init(accounts: Int, mayBeMore: Bool) { state = Mutex((accounts, mayBeMore)) }

    /// Whether more commands are probably due. Commands that could not be stored are retried later.
    var mayBeMore: Bool { state.withLock { $0.mayBeMore } }

    /// - Returns: whether it was the last account.
    func accountEnded(isStored: Bool) -> Bool {
        state.withLock { state in
            state.accounts -= 1
            state.mayBeMore = state.mayBeMore && isStored
            return state.accounts == 0
        }
    }
}
