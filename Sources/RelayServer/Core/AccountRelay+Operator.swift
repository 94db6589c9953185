// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// What the operator does to a whole account.
extension AccountRelay {
    /// Lets the account's endpoints in, or ends their channels and lets none in.
    mutating func setDisabled(_ isDisabled: Bool, answer: @escaping @Sendable (Result<Void, any Error>) -> Void) {
        let account = id
        transact { store, _ in
            try store.setDisabled(isDisabled, of: account)
        } then: { relay, result in
            if isDisabled, case .success = result {
                relay.closeAll(.init(code: .accountDisabled, message: "the relay's operator has disabled the account"))
            }
            relay.perform(.call { answer(result) })
        }
    }

    /// Removes the account with all that is of it.
    mutating func removeAccount(by actor: RelayEvent.Actor, answer: @escaping @Sendable (Result<Void, any Error>) -> Void) {
        let account = id
        transact { store, now in
            let name = try store.accountName(account)
            try store.removeAccount(account, time: now)
            return name
        } then: { relay, result in
            if case .success(let name) = result {
                relay.perform(.event(.accountRemoved(account: name, by: actor)))
                relay.closeAll(.init(code: .accountUnknown, message: "the account was removed"))
            }
            relay.perform(.call { answer(result.map { _ in }) })
        }
    }

    /// Ends what the account's endpoints have open. Those that are being let in were refused by the rows.
    private mutating func closeAll(_ invalidated: RelayMessage.AuthInvalidated) {
        let open = channels.keys.sorted().compactMap { channels[$0]?.channel }
        for channel in open {
            close(channel, saying: .authInvalidated(invalidated), code: 1008, reason: invalidated.code.rawValue)
        }
        perform(tunnels.closeAll())
    }
}
