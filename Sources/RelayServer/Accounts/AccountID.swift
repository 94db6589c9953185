// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// An account's id: 32 base32 characters.
package struct AccountID: Hashable, Sendable {
    package let rawValue: String

    package init(_ rawValue: String) { self.rawValue = rawValue }

    /// The account that a person's first identity makes. It follows from the identity, so that a relay that lost its database gives
    /// everybody the same one again: records and commands that are signed for it still hold.
    package init(of identity: Identity) {
        let digest = Digest256(hashing: Array("\(identity.issuer.utf8.count) \(identity.issuer)\(identity.subject)".utf8))
        self.init(String(digest.description.prefix(32)))
    }
}
