// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The identity of a person at an issuer.
package struct Identity: Codable, Hashable, Sendable {
    /// The issuer's URL; `embedded` for the issuer in this process, independent of its current URL.
    package var issuer: String
    package var subject: String

    package init(issuer: String, subject: String) {
        self.issuer = issuer
        self.subject = subject
    }
}

/// What is stored of an account.
package struct AccountRow: Hashable, Sendable {
    package var id: AccountID
    /// Unique; `nil` if the account has no name.
    package var name: String?
    package var isDisabled: Bool
    /// Milliseconds since 1970.
    package var created: Int64
    /// In the order of their issuers and subjects.
    package var identities: [AccountIdentity]
    /// How many endpoints it has.
    package var endpoints: Int
    package var quotas: AccountQuotas

    package init(
        id: AccountID,
        name: String?,
        isDisabled: Bool,
        created: Int64,
        identities: [AccountIdentity],
        endpoints: Int,
        quotas: AccountQuotas = AccountQuotas()
    ) {
        self.id = id
        self.name = name
        self.isDisabled = isDisabled
        self.created = created
        self.identities = identities
        self.endpoints = endpoints
        self.quotas = quotas
    }
}

/// What a hello needs to know of an account.
package struct AccountFacts: Hashable, Sendable {
    package var name: String?
    package var isDisabled = false
    /// How many endpoints it has.
    package var endpoints = 0

    package init(name: String? = nil, isDisabled: Bool = false, endpoints: Int = 0) {
        (self.name, self.isDisabled, self.endpoints) = (name, isDisabled, endpoints)
    }
}

/// An identity of an account.
package struct AccountIdentity: Hashable, Sendable {
    package var identity: Identity
    /// The endpoint that linked it; `nil` for the one that the account began with, and those of the operator. When the endpoint is revoked,
    /// the identity goes, too.
    package var linker: EndpointID?
    /// When the account got it: milliseconds since 1970.
    package var added: Int64

    package init(_ identity: Identity, linker: EndpointID? = nil, added: Int64) {
        self.identity = identity
        self.linker = linker
        self.added = added
    }
}

/// Another account has the name.
package struct AccountNameTaken: Error, Hashable {}
