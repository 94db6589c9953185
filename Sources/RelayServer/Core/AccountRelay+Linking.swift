// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// An identity that an endpoint has given to its account.
package struct LinkedIdentity: Hashable, Sendable {
    package var identity: Identity
    package var endpoint: EndpointID
    /// The identities that the account had before.
    package var others: [Identity]
}

/// Linking a second identity to an account, so that its owner can sign in at another issuer, too.
extension AccountRelay {
    /// How many identities an account can have by its endpoints. The operator may link more.
    static let maximumIdentities = 16

    /// - Parameter identity: The identity of a token that the endpoint has just presented.
    mutating func link(_ identity: Identity, _ ref: RequestRef, on channel: AccountChannel) {
        guard channels[channel.id] != nil else { return }
        let account = id
        serve(ref, on: channel) { store, _ -> LinkedIdentity? in
            // A newcomer, perhaps with a stolen link, must not open the account to its own identity.
            guard try store.member(channel.endpoint, of: account).isEstablished else { throw Rejection.notEstablished }
            let others = try store.account(account)?.identities ?? []
            guard others.count < Self.maximumIdentities || others.contains(identity) else {
                throw Rejection(.limitExceeded, "an account can have \(Self.maximumIdentities) identities")
            }
            switch try store.link(identity, to: account) {
            case .added: return LinkedIdentity(identity: identity, endpoint: channel.endpoint, others: others)
            case .known: return nil
            case .ofAnother: throw Rejection(.wrongAccount, "this identity belongs to another account of this relay")
            }
        } then: { relay, link in
            if let link { relay.perform(.linked(link)) }
        }
    }
}

/// What linking an identity has done.
enum IdentityLinking: Hashable {
    case added
    /// The account had it before.
    case known
    case ofAnother
}

extension StoreTransaction {
    /// Gives an account one more identity. An identity is of one account.
    func link(_ identity: Identity, to account: AccountID) throws -> IdentityLinking {
        if let owner = try self.account(of: identity) { return owner == account ? .known : .ofAnother }
        try add(identity, to: account)
        return .added
    }
}
