// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What the issuer asks the relay for the account pages: the relay has the endpoints, the issuer the users.
package protocol AccountHolder: Sendable {
    /// The endpoints of the account that a user of the issuer owns, the earliest first.
    func endpoints(of subject: String) async throws -> [AccountEndpoint]
    /// Revokes an endpoint for the account's owner: its channels, tunnels, commands and logins end, and its key is never admitted again.
    /// - Returns: Whether the account has the endpoint.
    func revoke(_ endpoint: EndpointID, of subject: String) async throws -> Bool
    /// The other identities with which the owner can sign in: those of other issuers.
    func identities(of subject: String) async throws -> [AccountLink]
    /// Takes an identity of another issuer from the account: its channels end, and it signs in to no account any more.
    /// - Returns: Whether the account had it, and could lose it.
    func unlink(issuer: String, subject other: String, of subject: String) async throws -> Bool
    /// Removes the account with all that is of it. May be repeated.
    /// - Returns: All users of the issuer that own the account, this one included.
    func remove(accountOf subject: String) async throws -> [String]
}

/// An identity of another issuer, as the account's owner sees it.
package struct AccountLink: Hashable, Sendable {
    /// The issuer's URL.
    package var issuer: String
    /// What identifies the person there.
    package var subject: String
    /// The endpoint that linked it; `nil` if the operator did.
    package var linker: EndpointID?
    package var added: Milliseconds
    /// Whether it can be removed. The account's first identity stays.
    package var isRemovable: Bool

    /// For people.
    var shown: String { "\(subject) at \(issuer)" }

    package init(issuer: String, subject: String, linker: EndpointID?, added: Milliseconds, isRemovable: Bool) {
        self.issuer = issuer
        self.subject = subject
        self.linker = linker
        self.added = added
        self.isRemovable = isRemovable
    }
}

/// An endpoint as its owner sees it. Its name, kind and platform are its own statement.
package struct AccountEndpoint: Hashable, Sendable {
    package var id: EndpointID
    package var name: String
    package var kind: String
    package var platform: String
    package var isConnected: Bool
    package var joining: Joining

    package init(id: EndpointID, name: String, kind: String, platform: String, isConnected: Bool, joining: Joining) {
        self.id = id
        self.name = name
        self.kind = kind
        self.platform = platform
        self.isConnected = isConnected
        self.joining = joining
    }
}
