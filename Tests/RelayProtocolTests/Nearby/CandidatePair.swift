// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// Two endpoints with link keys, and tunnels between them.
struct CandidatePair {
    struct Device {
        let id = EndpointID(P256SigningKey().publicKey)
        let key = P256LinkKey()

        func keys(with other: Device) throws -> PairKeys { try PairKeys(key, of: id, with: other.key.publicKey, of: other.id) }
    }

    let own = Device()
    let peer = Device()
    let ownKeys: PairKeys
    let peerKeys: PairKeys

    init() throws { (ownKeys, peerKeys) = (try own.keys(with: peer), try peer.keys(with: own)) }

    /// The keys of the own endpoint with others.
    func keys(_ other: EndpointID) -> PairKeys? { other == peer.id ? ownKeys : nil }

    func exchange(with tunnels: TunnelID...) -> CandidateExchange {
        var exchange = CandidateExchange(own: own.id)
        for tunnel in tunnels { exchange.began(tunnel, with: peer.id) }
        return exchange
    }

    /// What the peer says in a tunnel.
    func text(_ candidates: HostCandidates, in tunnel: TunnelID) throws -> TunnelCandidates {
        let sealed = try SealedCandidates(candidates, for: tunnel, from: peer.id, with: peerKeys)
        return TunnelCandidates(tunnel: tunnel, candidates: sealed.blob)
    }

    static func tunnel() -> TunnelID {
        var random = SystemRandomNumberGenerator()
        return TunnelID(using: &random)
    }

    static func candidates(_ port: UInt16, _ addresses: String...) -> HostCandidates? {
        HostCandidates(port: port, addresses: addresses.compactMap { IPAddress(parsing: $0.utf8) })
    }
}
