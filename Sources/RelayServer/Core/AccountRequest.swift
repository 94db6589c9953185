// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayLog
package import RelayProtocol

/// What others than the endpoints ask of an account: the operator, its owner, or the relay itself.
/// Between nodes it is JSON. A case keeps its form, since a node may be of the version before.
package enum AccountRequest: Codable, Hashable, Sendable {
    /// Make the account for an identity, or find it, and name it unless it has a name or another account has this one.
    case add(Identity, name: String)
    case rename(String)
    /// The logins of a revoked endpoint have ended.
    case loginsEnded(EndpointID)
    /// Remove the registration of an app that has lost its proof.
    case withdraw(_ appID: String, of: EndpointID)
    /// Begin the wakes anew for which commands wait.
    case restartWakes
    /// Let the account's endpoints in, or end their channels and let none in.
    case setDisabled(Bool)
    /// Set quotas of the account, or reset them.
    case setQuotas(QuotaChange)
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

package enum AccountAnswer: Codable, Hashable, Sendable {
    case done
    /// The identity belongs to another account.
    case ofAnother
    /// The account of the identity.
    case account(AccountID)
    case nameTaken
    case unlinked(IdentityRemoval)
    /// - rows: The endpoints that were revoked, without those that were already.
    /// - letIn: Those that the endpoint let in and that still exist.
    case revoked(_ rows: [EndpointRow], letIn: [EndpointRow])
    case noEndpoint
    /// It cannot be done.
    case failed
}

/// A request that others have left in the store.
package struct LeftRequest: Hashable, Sendable {
    package var id: Int64
    package var account: AccountID
    package var request: AccountRequest
    /// Milliseconds since 1970.
    package var made: Int64
}

/// Another transaction has answered the request, so this one does nothing.
struct RequestIsAnswered: Error {}

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
    /// - Parameter left: The request in the store, if it was left there. It is answered in the same transaction, so carried out once.
    func execution(
        as number: UInt64,
        left: Int64?,
        of account: AccountID,
        _ rules: RelayRules,
        now: @escaping @Sendable () -> Milliseconds
    ) -> AccountWork.Execution {
        func serve<Value: Sendable>(
            _ body: @escaping @Sendable (any AccountTransaction) throws -> (AccountAnswer, Value),
            then completion: @escaping @Sendable (inout AccountRelay, Value) -> Void
        ) -> AccountWork.Execution {
            .init { store in
                let (answer, value) = try body(store)
                if let left { try store.global.answer(left, answer, time: now().count) }
                return (answer, value)
            } then: { relay, result in
                if case .success(let (_, value)) = result { completion(&relay, value) }
                let answer = result.map { $0.0 }
                relay.perform(.answer(number, answer.mapError { $0 as? StoreError ?? .unavailable("\($0)") }))
            }
        }
        switch self {
        case .add(let identity, let name):
            return serve { store in
                if let other = try store.global.account(of: identity), other != account { return (.account(other), ()) }
                if try store.account(account) == nil { try store.addAccount(account, identity: identity, time: now().count) }
                if try store.account(account)?.name == nil { do { try store.setName(name, of: account) } catch is AccountNameTaken {} }
                return (.account(account), ())
            } then: { _, _ in
            }
        case .rename(let name):
            return serve { store in
                do { try store.setName(name, of: account) } catch is AccountNameTaken { return (.nameTaken, ()) }
                return (.done, ())
            } then: { _, _ in
            }
        case .loginsEnded(let endpoint):
            return serve {
                (.done, try $0.loginsEnded(of: endpoint))
            } then: { _, _ in
            }
        case .withdraw(let appID, let endpoint):
            return serve {
                (.done, try $0.removeRegistration(appID, of: endpoint, in: account))
            } then: { relay, _ in
                relay.transact(.readRegistrations([endpoint]))
            }
        case .restartWakes:
            return serve {
                (.done, try $0.restartWakes(of: account, at: now().count))
            } then: { _, _ in
            }
        case .setDisabled(let isDisabled):
            return serve {
                (.done, try $0.setDisabled(isDisabled, of: account))
            } then: { relay, _ in
                if isDisabled { relay.closeAll(.init(code: .accountDisabled, message: "the relay's operator has disabled the account")) }
            }
        case .setQuotas(let change):
            return serve {
                (.done, try $0.change(change, of: account, rules.limits))
            } then: { relay, isToBeTold in
                if isToBeTold { relay.greetAgain() }
            }
        case .remove(let actor):
            return serve { store in
                let name = try store.accountName(account)
                try store.removeAccount(account, time: now().count)
                return (.done, name)
            } then: { relay, name in
                relay.perform(.event(.accountRemoved(account: name, by: actor)))
                relay.closeAll(.init(code: .accountUnknown, message: "the account was removed"))
            }
        case .link(let identity):
            return serve { store in
                let result = try store.link(identity, to: account, at: now().count)
                return (result.linking == .ofAnother ? .ofAnother : .done, result)
            } then: { relay, result in
                if result.linking == .added { relay.changed(result.change) }
            }
        case .unlink(let identity):
            return serve { store in
                let result = try store.unlink(identity, from: account)
                return (.unlinked(result.removal), result.change)
            } then: { relay, change in
                if let change { relay.changed(change) }
            }
        case .revoke(let endpoint, let withLetIn, let actor):
            return serve { store -> (AccountAnswer, [EndpointRemoval]) in
                guard let done = try store.revoke(endpoint, withLetIn: withLetIn, by: actor, in: account, rules, at: now().count) else {
                    return (.noEndpoint, [])
                }
                return (.revoked(done.revoked, letIn: done.letIn), done.removals)
            } then: { relay, removals in
                for removal in removals { relay.removed(removal) }
            }
        case .endCommands(let commands):
            return serve { store in
                let changes = try commands.compactMap { command in
                    try store.change(StoredCommandKey(account: account, command: command)) { $0.handleDeadlines(now: now().count) }
                }
                return (.done, changes)
            } then: { relay, changes in
                for change in changes { relay.perform(change) }
            }
        }
    }
}
