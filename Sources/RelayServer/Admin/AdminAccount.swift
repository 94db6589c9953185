// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// An account as the operator sees it.
package struct AdminAccount: Codable, Hashable, Sendable {
    package struct Identity: Codable, Hashable, Sendable {
        /// The issuer's URL; `embedded` for the relay's own one.
        package var issuer: String
        package var subject: String
        /// The endpoint that linked it; missing if the operator did, or the account began with it.
        package var linkedBy: String?
        /// When the account got it: milliseconds since 1970.
        package var added: Int64
    }

    package var id: String
    /// Missing if the account has no name.
    package var name: String?
    package var isDisabled: Bool
    /// Milliseconds since 1970.
    package var created: Int64
    /// How many endpoints it has.
    package var endpoints: Int
    package var identities: [Identity]
    /// The limits that are set for it, by name; missing if none is.
    package var quotas: [String: Int]?

    package init(_ row: AccountRow) {
        self.id = row.id.rawValue
        self.name = row.name
        self.isDisabled = row.isDisabled
        self.created = row.created
        self.endpoints = row.endpoints
        self.quotas = row.quotas.isEmpty ? nil : Dictionary(uniqueKeysWithValues: row.quotas.values.map { ($0.key.rawValue, $0.value) })
        self.identities = row.identities.map { row in
            Identity(
                issuer: row.identity.issuer,
                subject: row.identity.subject,
                linkedBy: row.linker?.description,
                added: row.added
            )
        }
    }

    private enum CodingKeys: String, CodingKey {
        case id, name, created, endpoints, identities, quotas
        case isDisabled = "disabled"
    }
}

/// What came of revoking a token.
package struct AdminToken: Codable, Hashable, Sendable {
    package var issuer: String
    package var subject: String
    /// When it would have expired: milliseconds since 1970.
    package var expires: Int64
    /// Whether its login was revoked with it.
    package var isLoginRevoked: Bool

    package init(issuer: String, subject: String, expires: Int64, isLoginRevoked: Bool) {
        self.issuer = issuer
        self.subject = subject
        self.expires = expires
        self.isLoginRevoked = isLoginRevoked
    }

    private enum CodingKeys: String, CodingKey {
        case issuer, subject, expires
        case isLoginRevoked = "loginRevoked"
    }
}

/// All that is stored of an account. Signed records are in base64url, as they were signed.
package struct AdminExport: Codable, Hashable, Sendable {
    package struct App: Codable, Hashable, Sendable {
        package var id: String
        package var registration: String
    }

    package struct Endpoint: Codable, Hashable, Sendable {
        package var endpoint: AdminEndpoint
        package var record: String
        package var apps: [App]
        package var vouchers: [String]
    }

    package struct Revocation: Codable, Hashable, Sendable {
        package var endpoint: String
        /// Milliseconds since 1970.
        package var time: Int64
        /// Who signed it; missing if the operator revoked the endpoint.
        package var revoker: String?
    }

    package var account: AdminAccount
    package var endpoints: [Endpoint]
    package var revocations: [Revocation]
    /// How many commands wait for the account's endpoints. They are encrypted for them.
    package var commands: Int
    /// What commands, outcomes and registrations take.
    package var bytes: Int

    package init(_ account: AdminAccount, _ contents: AccountContents, isConnected: (EndpointID) -> Bool) {
        self.account = account
        self.endpoints = contents.endpoints.map { endpoint in
            Endpoint(
                endpoint: AdminEndpoint(endpoint.row, account: account.name ?? "", isConnected: isConnected(endpoint.row.id)),
                record: Base64.url.encode(endpoint.row.record),
                apps: endpoint.registrations.map { App(id: $0.appID, registration: Base64.url.encode($0.registration)) },
                vouchers: endpoint.vouchers.map { Base64.url.encode($0) }
            )
        }
        self.revocations = contents.revocations.map {
            Revocation(endpoint: $0.endpoint.description, time: $0.time, revoker: $0.statement?.revoker.description)
        }
        self.commands = contents.commands
        self.bytes = contents.bytes
    }
}
