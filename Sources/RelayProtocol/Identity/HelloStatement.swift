// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What an endpoint signs to open its control channel: that it is this endpoint, now, at this relay and origin, with this
/// token and this record. Nothing of it can be used elsewhere or again.
package struct HelloStatement: Codable, Hashable, Sendable {
    package var relay: RelayID
    /// The origin that was dialled, such as `https://relay.example:8443`.
    package var origin: String
    /// The relay's challenge.
    package var nonce: [UInt8]
    /// The digest of the access token.
    package var token: Digest256
    /// The digest of the signed endpoint record.
    package var record: Digest256

    package init(relay: RelayID, origin: String, nonce: [UInt8], token: String, record: [UInt8]) {
        self.relay = relay
        self.origin = origin
        self.nonce = nonce
        self.token = Digest256(hashing: Array(token.utf8))
        self.record = Digest256(hashing: record)
    }

    package func sign(with key: some IdentityKey) throws -> [UInt8] {
        try key.sign(try ValueSetEncoder().encode(self).encodedBytes(), for: .hello)
    }

    package func isSigned(_ signature: [UInt8], by key: SigningPublicKey) -> Bool {
        guard let message = try? ValueSetEncoder().encode(self).encodedBytes() else { return false }
        return key.isValid(signature, over: message, for: .hello)
    }
}
