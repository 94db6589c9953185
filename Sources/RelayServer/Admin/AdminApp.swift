// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A cross-device app identity as the operator sees it.
package struct AdminApp: Codable, Hashable, Sendable {
    /// Push credentials without their secrets.
    package struct Credential: Codable, Hashable, Sendable {
        package var id: String
        /// The push type.
        package var type: String
        package var label: String
        /// Milliseconds since 1970.
        package var created: Int64
    }

    /// The domain, or `default`.
    package var id: String
    /// Each as `PLATFORM=ID`.
    package var apps: [String]
    /// Those of them for which the domain is not proven.
    package var unproven: [String]
    /// The text of a TXT record that proves the domain.
    package var record: String?
    /// Milliseconds since 1970; missing while the domain is not proven.
    package var verified: Int64?
    package var credentials: [Credential]

    package init(_ identity: AppIdentity, _ credentials: [CredentialRow]) {
        self.id = identity.id
        self.apps = identity.apps.map(\.description)
        let proven = identity.id == AppIdentity.defaultID ? identity.apps : identity.provenApps
        self.unproven = identity.apps.filter { !proven.contains($0) }.map(\.description)
        self.record = identity.id == AppIdentity.defaultID ? nil : DomainProof.recordPrefix + identity.proof
        self.verified = identity.verified
        self.credentials = credentials.filter { $0.identity == identity.id }.map {
            Credential(id: $0.id, type: $0.type, label: $0.label, created: $0.created)
        }
    }
}
