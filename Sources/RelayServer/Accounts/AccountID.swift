// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// An account's id: 32 base32 characters.
package struct AccountID: Hashable, Sendable {
    package let rawValue: String
    /// Computed once: a message passes many tables whose key is its account.
    private let hash: Int

    package init(_ rawValue: String) {
        self.rawValue = rawValue
        hash = rawValue.hashValue
    }

    package static func == (one: AccountID, other: AccountID) -> Bool { one.hash == other.hash && one.rawValue == other.rawValue }
    package func hash(into hasher: inout Hasher) { hasher.combine(hash) }

    /// The number of one of `count` shards, from 0. It differs from run to run.
    package func shard(of count: Int) -> Int { Int(hash.magnitude % UInt(count)) }

    /// As `shard`, and independent of it: the accounts of one shard have all these numbers.
    package func queue(of count: Int) -> Int { Int(hash.magnitude / 64 % UInt(count)) }

    /// The account of a new identity. It is derived from the identity, so a relay that has lost its database gives each person the same
    /// account id again, and records and commands signed for it stay valid.
    package init(of identity: Identity) {
        let digest = Digest256(hashing: Array("\(identity.issuer.utf8.count) \(identity.issuer)\(identity.subject)".utf8))
        self.init(String(digest.description.prefix(32)))
    }
}

extension AccountID: Codable {
    package init(from decoder: any Decoder) throws { self.init(try decoder.singleValueContainer().decode(String.self)) }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(rawValue)
    }
}
