// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// An account's id: 32 base32 characters.
package struct AccountID: Hashable, Sendable {
    package let rawValue: String

    package init(_ rawValue: String) { self.rawValue = rawValue }

    /// The account of a new identity. It is derived from the identity, so a relay that has lost its database gives each person the same
    /// account id again, and records and commands signed for it stay valid.
    package init(of identity: Identity) {
        let digest = Digest256(hashing: Array("\(identity.issuer.utf8.count) \(identity.issuer)\(identity.subject)".utf8))
        self.init(String(digest.description.prefix(32)))
    }
}
