// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol
package import RelayStorage

/// The credentials of an endpoint at its relay, and the relay's address.
package struct EndpointCredentials: Sendable {
    package let identityKey: any IdentityKey
    package let tokens: any TokenStorage
    package let relay: RelayID
    package let address: RelayAddress
    package let trust: RelayTrust
    /// The local clock: milliseconds since 1970.
    package let now: @Sendable () -> Int64

    package init(
        identityKey: any IdentityKey,
        tokens: any TokenStorage,
        relay: RelayID,
        address: RelayAddress,
        trust: RelayTrust,
        now: @escaping @Sendable () -> Int64 = EndpointCredentials.systemTime
    ) {
        self.identityKey = identityKey
        self.tokens = tokens
        self.relay = relay
        self.address = address
        self.trust = trust
        self.now = now
    }

    /// The credentials of a stored endpoint.
    package init(
        _ storage: AccountStorage,
        address: RelayAddress,
        trust: RelayTrust,
        now: @escaping @Sendable () -> Int64 = EndpointCredentials.systemTime
    ) throws(StorageError) {
        self.init(
            identityKey: try storage.identityKey(),
            tokens: storage.tokens,
            relay: storage.scope.relay,
            address: address,
            trust: trust,
            now: now
        )
    }

    @Sendable package static func systemTime() -> Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }

    /// A DPoP proof for one request (RFC 9449).
    /// - Parameter url: The URL without query and fragment.
    func proof(method: String, url: String, accessToken: String? = nil, time: Int64) throws -> String {
        var random = SystemRandomNumberGenerator()
        return try DPoPProof.make(
            method: method,
            url: url,
            jti: randomBytes(16, using: &random),
            now: Milliseconds(clamping: time),
            accessToken: accessToken,
            with: identityKey
        )
    }
}

extension EndpointCredentials: Hashable {
    /// Compares the identity and the relay, not the storage.
    package static func == (left: Self, right: Self) -> Bool {
        left.identityKey.publicKey == right.identityKey.publicKey && left.relay == right.relay && left.address == right.address
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(identityKey.publicKey)
        hasher.combine(relay)
        hasher.combine(address)
    }
}
