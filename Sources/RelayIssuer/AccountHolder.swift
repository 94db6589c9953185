// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The interface through which the account pages use the relay. The relay stores the endpoints, and the issuer stores the users.
package protocol AccountHolder: Sendable {
    /// Returns the endpoints of the account that a user of the issuer owns, earliest first.
    func endpoints(of subject: String) async throws -> [AccountEndpoint]
    /// Revokes an endpoint for the account's owner. Its channels, tunnels, commands and logins end, and its key is never admitted again.
    /// - Returns: Whether the account has the endpoint.
    func revoke(_ endpoint: EndpointID, of subject: String) async throws -> Bool
    /// Returns the other identities with which the owner can sign in: those of other issuers.
    func identities(of subject: String) async throws -> [AccountLink]
    /// Removes an identity of another issuer from the account. Its channels end, and it can no longer sign in to any account.
    /// - Returns: Whether the identity was removed: the account had it, and it was removable.
    func unlink(issuer: String, subject other: String, of subject: String) async throws -> Bool
    /// Removes the account and all its data. The call may be repeated.
    /// - Returns: All users of the issuer that own the account, including this one.
    func remove(accountOf subject: String) async throws -> [String]
}

/// An identity of another issuer, as the account's owner sees it.
package struct AccountLink: Hashable, Sendable {
    /// The issuer's URL.
    package var issuer: String
    /// The id of the person at the issuer.
    package var subject: String
    /// The endpoint that linked it; `nil` if the operator did.
    package var linker: EndpointID?
    package var added: Milliseconds
    /// Whether it can be removed. The account's first identity stays.
    package var isRemovable: Bool

    package init(issuer: String, subject: String, linker: EndpointID?, added: Milliseconds, isRemovable: Bool) {
        self.issuer = issuer
        self.subject = subject
        self.linker = linker
        self.added = added
        self.isRemovable = isRemovable
    }
}

/// An endpoint as its owner sees it. The endpoint itself states its name, kind and platform.
package struct AccountEndpoint: Hashable, Sendable {
    package var id: EndpointID
    package var name: String
    package var kind: String
    package var platform: String
    package var isConnected: Bool
    package var joining: Joining
    /// The thumbprint of its identity key, to which its login is bound.
    package var keyThumbprint: String

    package init(
        id: EndpointID,
        name: String,
        kind: String,
        platform: String,
        isConnected: Bool,
        joining: Joining,
        keyThumbprint: String = ""
    ) {
        self.id = id
        self.name = name
        self.kind = kind
        self.platform = platform
        self.isConnected = isConnected
        self.joining = joining
        self.keyThumbprint = keyThumbprint
    }
}
