// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Signed revocations whose signer is not known yet. The relay may list the signer later.
struct UnprovenRevocations: Sendable {
    /// By the revoked endpoint.
    private var byEndpoint: [EndpointID: Unverified<Revocation>] = [:]
    /// The names of known endpoints that such a revocation excludes. If the enumeration does not prove the revocation, watchers receive an
    /// event with the name.
    private var names: [EndpointID: String] = [:]

    var statements: [Unverified<Revocation>] { byEndpoint.keys.sorted().compactMap { byEndpoint[$0] } }

    /// Keeps a revocation. Above the maximum number, revocations of further endpoints are dropped.
    mutating func keep(_ statement: Unverified<Revocation>) {
        let endpoint = statement.payload.endpoint
        guard byEndpoint.count < PeerBook.maximumRevocations || byEndpoint[endpoint] != nil else { return }
        byEndpoint[endpoint] = statement
    }

    mutating func keep(_ name: String, of endpoint: EndpointID) { names[endpoint] = name }

    mutating func remove(_ endpoint: EndpointID) { byEndpoint[endpoint] = nil }

    mutating func takeNames() -> [EndpointID: String] {
        defer { names = [:] }
        return names
    }
}
