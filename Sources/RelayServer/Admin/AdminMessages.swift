// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A request of an operator's command to a running relay. One request for each connection.
package enum AdminRequest: Codable, Hashable, Sendable {
    /// The endpoints of an account, a name or an id; without it those of all accounts.
    case listEndpoints(account: String?)
    /// Revokes an endpoint for the operator, and perhaps the endpoints that it let in.
    case revokeEndpoint(id: String, withInvited: Bool)
    case listAccounts
    /// Adds an account, its user at the embedded issuer, and perhaps the user's password.
    case addAccount(name: String, password: Secret<String>?)
    /// Adds the accounts that there are not yet, each with a set-up link, and sets the quotas of all.
    /// - Parameter origin: The relay's URL in the links.
    case importAccounts([AdminImport], origin: String)
    case renameAccount(String, to: String)
    case disableAccount(String)
    case enableAccount(String)
    /// Removes an account with all that is of it.
    case removeAccount(String)
    /// Gives an account one more identity.
    case linkAccount(String, issuer: String, subject: String)
    /// Takes an identity from an account.
    case unlinkAccount(String, issuer: String, subject: String)
    /// Changes the quotas of an account, if there is a change, and tells them.
    case accountQuotas(String, QuotaChange)
    /// All that is stored of an account.
    case exportAccount(String)
    /// Makes the code of a join link; without an account for the only one.
    case invite(account: String?)
    /// Makes a link with which an account's owner chooses how to sign in.
    /// - Parameter origin: The relay's URL in the link.
    case setUpLink(account: String?, origin: String, isReset: Bool)
    /// Revokes a token, and its login at the embedded issuer.
    case revokeToken(Secret<String>)
    /// The keys with which the embedded issuer signs tokens.
    case listKeys
    case removeKey(String)
    case listResourceServers
    case addResourceServer(String)
    case removeResourceServer(String)
    case listApps
    /// Adds an identity, a domain or `default`, and apps to it, each as `PLATFORM=ID`.
    case addApp(String, apps: [String])
    /// Removes apps from an identity; without them the identity.
    case removeApp(String, apps: [String])
    /// Looks for the proof of a domain.
    case verifyApp(String)
    case addCredential(Secret<StoredCredential>, app: String)
    case removeCredential(String, app: String)

    /// How requests have come since the relay's start.
    case countForwarding
    /// A backup was made beside the relay: its log says so.
    case madeBackup

    /// The command as the log names it, and the account that the operator named.
    package var logged: (command: String, account: String?) {
        switch self {
        case .listEndpoints(let account): ("endpoint list", account)
        case .revokeEndpoint: ("endpoint revoke", nil)
        case .listAccounts: ("account list", nil)
        case .addAccount(let name, _): ("account add", name)
        case .importAccounts: ("account import", nil)
        case .renameAccount(let account, _): ("account rename", account)
        case .disableAccount(let account): ("account disable", account)
        case .enableAccount(let account): ("account enable", account)
        case .removeAccount(let account): ("account remove", account)
        case .linkAccount(let account, _, _): ("account link", account)
        case .unlinkAccount(let account, _, _): ("account unlink", account)
        case .accountQuotas(let account, _): ("account quota", account)
        case .exportAccount(let account): ("account export", account)
        case .invite(let account): ("invite", account)
        case .setUpLink(let account, _, _): ("account set-up", account)
        case .revokeToken: ("token revoke", nil)
        case .listKeys: ("account key list", nil)
        case .removeKey: ("account key remove", nil)
        case .listResourceServers: ("resource-server list", nil)
        case .addResourceServer: ("resource-server add", nil)
        case .removeResourceServer: ("resource-server remove", nil)
        case .listApps: ("app list", nil)
        case .addApp: ("app add", nil)
        case .removeApp: ("app remove", nil)
        case .verifyApp: ("app verify", nil)
        case .addCredential: ("app credential add", nil)
        case .removeCredential: ("app credential remove", nil)
        case .countForwarding: ("doctor", nil)
        case .madeBackup: ("backup", nil)
        }
    }
}

/// The relay's answer.
package enum AdminAnswer: Codable, Hashable, Sendable {
    /// Why the request failed.
    case failure(String)
    case endpoints([AdminEndpoint])
    case revocation(AdminRevocation)
    case accounts([AdminAccount])
    case account(AdminAccount)
    /// In the order of the request.
    case imported([AdminImported])
    case quotas(AdminQuotas)
    case export(AdminExport)
    /// The code of a join link, and the account's user.
    case invitation(code: Secret<String>, subject: String)
    /// The link of a page, and the account's user.
    case link(Secret<String>, subject: String)
    case token(AdminToken)
    /// All signing keys, oldest first.
    case keys([AdminKey])
    case resourceServers([String])
    /// The secret of a new resource server.
    case secret(Secret<String>)
    case apps([AdminApp])
    /// What remains of an identity; `nil` after it was removed.
    case app(AdminApp?)
    case forwarding(AdminForwarding)
    case done
}

/// An account to import.
package struct AdminImport: Codable, Hashable, Sendable {
    package var name: String
    /// Those that are to be set.
    package var quotas: QuotaChange

    package init(name: String, quotas: QuotaChange = QuotaChange()) { (self.name, self.quotas) = (name, quotas) }
}

/// An account of an import.
package struct AdminImported: Codable, Hashable, Sendable {
    package var name: String
    package var id: String
    /// The set-up link of a new account; `nil` if the account was there.
    package var link: Secret<String>?

    package init(name: String, id: String, link: Secret<String>?) { (self.name, self.id, self.link) = (name, id, link) }
}

/// How many requests have come since the relay's start.
package struct AdminForwarding: Codable, Hashable, Sendable {
    /// From trusted proxies, with `X-Forwarded-For`.
    package var named: Int
    /// From trusted proxies, without the field.
    package var unnamed: Int
    /// With the field, from addresses of this machine and its network that are no trusted proxies.
    package var untrusted: Int
    /// The address of the last of these.
    package var lastUntrusted: String?

    package init(named: Int, unnamed: Int, untrusted: Int, lastUntrusted: String?) {
        self.named = named
        self.unnamed = unnamed
        self.untrusted = untrusted
        self.lastUntrusted = lastUntrusted
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

/// A signing key of the embedded issuer.
package struct AdminKey: Codable, Hashable, Sendable {
    /// `kid` in its tokens.
    package var id: String
    /// `signing`; `next`, which signs later; or `former`, whose last tokens are still accepted.
    package var phase: String
    /// When it begins to sign: milliseconds since 1970.
    package var activates: Int64

    package init(id: String, phase: String, activates: Int64) { (self.id, self.phase, self.activates) = (id, phase, activates) }
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
