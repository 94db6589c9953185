// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// What others than the endpoints ask of an account: the operator, its owner, or the relay itself.
enum AccountRequest: Hashable, Sendable {
    /// Let the account's endpoints in, or end their channels and let none in.
    case setDisabled(Bool)
    /// Remove the account with all that is of it.
    case remove(by: RelayEvent.Actor)
    /// Give the account one more identity.
    case link(Identity)
    /// Take an identity from the account, and end the channels of its tokens.
    case unlink(Identity)
    /// Revoke an endpoint, without a signature. Endpoints that are established only through it lose that classification.
    /// - withLetIn: revoke also the endpoints that it let in, and those that these let in.
    case revoke(EndpointID, withLetIn: Bool, by: RelayEvent.Actor)
    /// Handle commands whose deadlines have passed. They expire, are given up because the target did not answer, or are deleted because the
    /// sender did not acknowledge them.
    case endCommands([CommandKey])
}

enum AccountAnswer: Hashable, Sendable {
    case done
    /// The identity belongs to another account.
    case ofAnother
    case unlinked(IdentityRemoval)
    /// `nil` if there was no such endpoint; an endpoint that is already revoked counts.
    case revoked(OperatorRevocation?)
}

/// The result of a revocation by the operator.
package struct OperatorRevocation: Hashable, Sendable {
    /// The endpoints that this request revoked, without those that were already revoked.
    package var revoked: [EndpointRow]
    /// The endpoints that the revoked one let in and that still exist.
    package var letIn: [EndpointStatus]
}

/// An endpoint, and whether it is connected.
package struct EndpointStatus: Hashable, Sendable {
    package var row: EndpointRow
    package var isConnected: Bool
}

extension AccountRelay {
    /// Ends what the account's endpoints have open. Those that are being let in were refused by the rows.
    fileprivate mutating func closeAll(_ invalidated: RelayMessage.AuthInvalidated) {
        for channel in channels.all {
            close(channel, saying: .authInvalidated(invalidated), code: 1008, reason: invalidated.code.rawValue)
        }
        perform(tunnels.closeAll())
    }
}

extension AccountRequest {
    /// The transaction of the request, and its completion.
    func execution(
        as number: UInt64,
        of account: AccountID,
        _ rules: RelayRules,
        now: @escaping @Sendable () -> Milliseconds
    ) -> AccountWork.Execution {
        switch self {
        case .setDisabled(let isDisabled):
            .init(answering: number) {
                try $0.setDisabled(isDisabled, of: account)
            } then: { relay, _ in
                if isDisabled { relay.closeAll(.init(code: .accountDisabled, message: "the relay's operator has disabled the account")) }
                return .done
            }
        case .remove(let actor):
            .init(answering: number) { store in
                let name = try store.accountName(account)
                try store.removeAccount(account, time: now().count)
                return name
            } then: { relay, name in
                relay.perform(.event(.accountRemoved(account: name, by: actor)))
                relay.closeAll(.init(code: .accountUnknown, message: "the account was removed"))
                return .done
            }
        case .link(let identity):
            .init(answering: number) {
                try $0.link(identity, to: account, at: now().count)
            } then: { relay, result in
                if result.linking == .added { relay.changed(result.change) }
                return result.linking == .ofAnother ? .ofAnother : .done
            }
        case .unlink(let identity):
            .init(answering: number) {
                try $0.unlink(identity, from: account)
            } then: { relay, result in
                if let change = result.change { relay.changed(change) }
                return .unlinked(result.removal)
            }
        case .revoke(let endpoint, let withLetIn, let actor):
            .init(answering: number) {
                try $0.revoke(endpoint, withLetIn: withLetIn, by: actor, in: account, rules, at: now().count)
            } then: { relay, done in
                guard let done else { return .revoked(nil) }
                for removal in done.removals { relay.removed(removal) }
                let letIn = done.letIn.map { EndpointStatus(row: $0, isConnected: !relay.channels.channels(of: $0.id).isEmpty) }
                return .revoked(.init(revoked: done.revoked, letIn: letIn))
            }
        case .endCommands(let commands):
            .init(answering: number) { store in
                try commands.compactMap { command in
                    try store.change(StoredCommandKey(account: account, command: command)) { $0.handleDeadlines(now: now().count) }
                }
            } then: { relay, changes in
                for change in changes { relay.perform(change) }
                return .done
            }
        }
    }
}
