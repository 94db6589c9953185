// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A request of an operator's command to a running relay. One request for each connection.
package struct AdminRequest: Codable, Hashable, Sendable {
    package enum Command: String, Codable, Sendable {
        /// Lists the endpoints of `account`, a name or an id; without it those of all accounts.
        case listEndpoints = "endpoint.list"
        /// Revokes `endpoint` for the operator, and the endpoints that it let in if `withInvited` is true.
        case revokeEndpoint = "endpoint.revoke"
        case listAccounts = "account.list"
        /// Adds an account with `name`, and its user at the embedded issuer.
        case addAccount = "account.add"
        /// Gives `account` the name `name`.
        case renameAccount = "account.rename"
        case disableAccount = "account.disable"
        case enableAccount = "account.enable"
        /// Removes `account` with all that is of it.
        case removeAccount = "account.remove"
        /// Gives `account` the identity of `issuer` and `subject`.
        case linkAccount = "account.link"
        /// Takes the identity of `issuer` and `subject` from `account`.
        case unlinkAccount = "account.unlink"
        /// All that is stored of `account`.
        case exportAccount = "account.export"
        /// Revokes `token`, and its login at the embedded issuer.
        case revokeToken = "token.revoke"
        case listApps = "app.list"
        /// Adds the identity `app`, and `apps` to it.
        case addApp = "app.add"
        /// Removes `apps` from the identity `app`; without them the identity.
        case removeApp = "app.remove"
        /// Looks for the proof of the domain `app`.
        case verifyApp = "app.verify"
        /// Adds `credential` to the identity `app`.
        case addCredential = "app.credential.add"
        /// Removes the credentials with the id `name`.
        case removeCredential = "app.credential.remove"
    }

    package var command: Command
    /// A name or an id.
    package var account: String?
    package var endpoint: String?
    package var withInvited: Bool?
    package var name: String?
    package var issuer: String?
    package var subject: String?
    package var token: Secret<String>?
    /// A domain, or `default`.
    package var app: String?
    /// Each as `PLATFORM=ID`.
    package var apps: [String]?
    package var credential: Secret<StoredCredential>?

    package init(
        _ command: Command,
        account: String? = nil,
        endpoint: String? = nil,
        withInvited: Bool? = nil,
        name: String? = nil,
        issuer: String? = nil,
        subject: String? = nil,
        token: Secret<String>? = nil,
        app: String? = nil,
        apps: [String]? = nil,
        credential: Secret<StoredCredential>? = nil
    ) {
        self.command = command
        self.account = account
        self.endpoint = endpoint
        self.withInvited = withInvited
        self.name = name
        self.issuer = issuer
        self.subject = subject
        self.token = token
        self.app = app
        self.apps = apps
        self.credential = credential
    }
}

/// The relay's answer.
package struct AdminAnswer: Codable, Hashable, Sendable {
    /// Why the request failed.
    package var error: String?
    package var endpoints: [AdminEndpoint]?
    package var revocation: AdminRevocation?
    package var accounts: [AdminAccount]?
    package var export: AdminExport?
    package var token: AdminToken?
    package var apps: [AdminApp]?

    package init(
        error: String? = nil,
        endpoints: [AdminEndpoint]? = nil,
        revocation: AdminRevocation? = nil,
        accounts: [AdminAccount]? = nil,
        export: AdminExport? = nil,
        token: AdminToken? = nil,
        apps: [AdminApp]? = nil
    ) {
        self.error = error
        self.endpoints = endpoints
        self.revocation = revocation
        self.accounts = accounts
        self.export = export
        self.token = token
        self.apps = apps
    }
}

/// The result of a revocation.
package struct AdminRevocation: Codable, Hashable, Sendable {
    /// The endpoints that this request revoked, without those that were already revoked.
    package var revoked: [AdminEndpoint]
    /// The endpoints that the revoked one let in and that still exist.
    package var letIn: [AdminEndpoint]
    /// The other issuers at which the account's owner can sign in. The relay cannot end logins there.
    package var issuers: [String]

    package init(revoked: [AdminEndpoint], letIn: [AdminEndpoint], issuers: [String] = []) {
        self.revoked = revoked
        self.letIn = letIn
        self.issuers = issuers
    }
}

/// An endpoint as the operator sees it.
package struct AdminEndpoint: Codable, Hashable, Sendable {
    package var id: String
    /// The account's name.
    package var account: String
    /// The device's name from the endpoint's record.
    package var name: String
    package var device: String
    package var isConnected: Bool
    /// Whether it may revoke other endpoints and invite.
    package var isEstablished: Bool
    /// Milliseconds since 1970.
    package var joined: Int64
    package var invitedBy: String?
    package var address: String?

    package init(_ row: EndpointRow, account: String, isConnected: Bool) {
        self.id = row.id.description
        self.account = account
        self.name = (try? Unverified<EndpointRecord>(decoding: row.record).payload.name) ?? ""
        self.device = row.system.description
        self.isConnected = isConnected
        self.isEstablished = row.isEstablished
        self.joined = row.joining.time.count
        self.invitedBy = row.joining.invitedBy?.description
        self.address = row.joining.address
    }

    private enum CodingKeys: String, CodingKey {
        case id, account, name, device, joined, invitedBy, address
        case isConnected = "connected"
        case isEstablished = "established"
    }
}
