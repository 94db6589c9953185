// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
package import RelayProtocol

/// A change of the identities of an account.
package struct IdentityChange: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case linked, removed
    }

    package var kind: Kind
    package var identity: Identity
    /// The account's name.
    package var account: String
    /// The endpoint that linked it; `nil` if the operator or the account's owner did.
    package var linker: EndpointID?
    /// The other identities of the account.
    package var others: [Identity]
}

/// What removing an identity has done.
package enum IdentityRemoval: Codable, Hashable, Sendable {
    case removed
    /// The account has no such identity.
    case unknown
    /// The account began with it, and its id is derived from it.
    case first
}

/// Linking a second identity to an account, so that its owner can sign in at another issuer, too.
extension AccountRelay {
    /// How many identities an account can have by its endpoints. The operator may link more.
    static let maximumIdentities = 16

    /// - Parameter identity: The identity of a token that the endpoint has just presented.
    mutating func link(_ identity: Identity, _ ref: RequestRef, on channel: AccountChannel) {
        if channels.contains(channel.id) { transact(.link(identity, ref, channel)) }
    }

    /// Tells the account's other channels, and the observer that keeps a record for the owner. Ends the channels of a removed identity.
    mutating func changed(_ change: IdentityChange, except endpoint: EndpointID? = nil) {
        let open = channels.all
        if change.kind == .removed {
            let message = "this way to sign in was removed from the account"
            for channel in open where channel.identity == change.identity {
                close(
                    channel,
                    saying: .authInvalidated(.init(code: .accountUnknown, message: message)),
                    code: 1008,
                    reason: ControlErrorCode.accountUnknown.rawValue
                )
            }
        }
        let notice = RelayMessage.IdentityChanged(
            change: change.kind == .linked ? .linked : .removed,
            issuer: change.identity.issuer,
            endpoint: change.linker,
            time: now
        )
        for channel in open where channel.endpoint != endpoint { send(.identityChanged(notice), to: channel.id) }
        let (issuer, linker) = (change.identity.issuer, change.linker?.label)
        switch change.kind {
        case .linked: perform(.event(.identityLinked(account: change.account, issuer: issuer, endpoint: linker)))
        case .removed: perform(.event(.identityRemoved(account: change.account, issuer: issuer, endpoint: linker)))
        }
        perform(.identity(change))
    }
}

/// What linking an identity has done.
enum IdentityLinking: Hashable {
    case added
    /// The account had it before.
    case known
    case ofAnother
}

extension AccountTransaction {
    /// What the operator calls an account.
    func accountName(_ id: AccountID) throws -> String { try account(id)?.name ?? String(id.rawValue.prefix(8)) }

    /// Gives an account one more identity for one of its endpoints.
    func link(_ identity: Identity, on channel: AccountChannel, at now: Int64) throws -> IdentityChange? {
        let (endpoint, account) = (channel.endpoint, channel.account)
        // A newcomer, perhaps with a stolen link, must not open the account to its own identity.
        guard try member(endpoint, of: account).isEstablished else { throw Rejection.notEstablished }
        let others = try self.account(account)?.identities.map(\.identity) ?? []
        guard others.count < AccountRelay.maximumIdentities || others.contains(identity) else {
            throw Rejection(.limitExceeded, "an account can have \(AccountRelay.maximumIdentities) identities")
        }
        switch try link(.init(identity, linker: endpoint, added: now), to: account) {
        case .added:
            let name = try accountName(account)
            return IdentityChange(kind: .linked, identity: identity, account: name, linker: endpoint, others: others)
        case .known: return nil
        case .ofAnother: throw Rejection(.wrongAccount, "this identity belongs to another account of this relay")
        }
    }

    /// The same for the operator.
    func link(_ identity: Identity, to account: AccountID, at now: Int64) throws -> (linking: IdentityLinking, change: IdentityChange) {
        let others = try self.account(account)?.identities.map(\.identity) ?? []
        let linking = try link(.init(identity, added: now), to: account)
        let name = try accountName(account)
        return (linking, IdentityChange(kind: .linked, identity: identity, account: name, linker: nil, others: others))
    }

    /// An identity is of one account.
    private func link(_ identity: AccountIdentity, to account: AccountID) throws -> IdentityLinking {
        if let owner = try global.account(of: identity.identity) { return owner == account ? .known : .ofAnother }
        try add(identity, to: account)
        return .added
    }

    /// Removes an identity for the operator or the owner.
    func unlink(_ identity: Identity, from account: AccountID) throws -> (removal: IdentityRemoval, change: IdentityChange?) {
        guard let found = try self.account(account)?.identities.first(where: { $0.identity == identity }) else { return (.unknown, nil) }
        // A later account of this identity would have the same id.
        guard AccountID(of: identity) != account else { return (.first, nil) }
        return (.removed, try unlink(found, from: account))
    }

    private func unlink(_ identity: AccountIdentity, from account: AccountID) throws -> IdentityChange {
        try remove(identity.identity, from: account)
        let others = try self.account(account)?.identities.map(\.identity) ?? []
        let name = try accountName(account)
        return IdentityChange(kind: .removed, identity: identity.identity, account: name, linker: identity.linker, others: others)
    }

    /// Removes the identities that a revoked endpoint linked: the person who had the endpoint may be able to sign in with them.
    func unlinkIdentities(linkedBy endpoint: EndpointID, from account: AccountID) throws -> [IdentityChange] {
        let linked = try self.account(account)?.identities.filter { $0.linker == endpoint } ?? []
        return try linked.map { try unlink($0, from: account) }
    }
}
