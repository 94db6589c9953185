// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Signed revocations whose signer is not known yet: it may be listed later.
struct UnprovenRevocations: Sendable {
    /// By the endpoint that they revoke.
    private var byEndpoint: [EndpointID: Unverified<Revocation>] = [:]
    /// The names of known endpoints that are refused by such a revocation. Watchers are told when the enumeration does not prove it.
    private var names: [EndpointID: String] = [:]

    var statements: [Unverified<Revocation>] { byEndpoint.keys.sorted().compactMap { byEndpoint[$0] } }

    /// Beyond the most revocations that are kept, new ones are left out.
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
