// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The statement that an endpoint signs to open its control channel. It binds the endpoint's identity to the relay, the
/// origin, the relay's nonce, the token and the record, so it is not valid elsewhere or a second time.
package struct HelloStatement: Codable, Hashable, Sendable {
    package var relay: RelayID
    /// The dialled origin, such as `https://relay.example:8443`.
    package var origin: String
    /// The nonce of the relay's challenge.
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
