// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Whom an endpoint tells through the relay where it listens, and whom it believes: the other sides of its tunnels. It does no I/O.
package struct CandidateExchange {
    /// The tunnels whose other sides are told. Beyond them the oldest one is forgotten.
    static let maximumTunnels = 128
    /// The texts that are known again. Beyond them the oldest one is forgotten.
    static let maximumKnown = 1_024

    private struct Tunnel {
        let peer: EndpointID
        /// The texts that were sent.
        var told = 0
        /// The texts that were taken.
        var heard = 0
    }

    private let own: EndpointID
    private var tunnels: [TunnelID: Tunnel] = [:]
    /// The oldest one first.
    private var order: [TunnelID] = []
    /// The nonces of the texts that were taken: a relay may send one again, also in a tunnel that it gives the same id.
    private var known: (set: Set<[UInt8]>, order: [[UInt8]]) = ([], [])

    package init(own: EndpointID) { self.own = own }

    /// This endpoint is a side of a tunnel.
    package mutating func began(_ tunnel: TunnelID, with peer: EndpointID) {
        // The relay may offer a tunnel again.
        guard tunnels[tunnel]?.peer != peer else { return }
        ended(tunnel)
        if order.count >= Self.maximumTunnels { tunnels[order.removeFirst()] = nil }
        tunnels[tunnel] = Tunnel(peer: peer)
        order.append(tunnel)
    }

    /// A tunnel is not used any more.
    package mutating func ended(_ tunnel: TunnelID) {
        guard tunnels.removeValue(forKey: tunnel) != nil else { return }
        order.removeAll { $0 == tunnel }
    }

    /// What to say about this endpoint's candidates.
    /// - Parameters:
    ///   - tunnel: Whose other side is to be told; `nil` for all.
    ///   - keys: Of an endpoint with which there may be a direct path.
    package mutating func tell(
        _ candidates: HostCandidates,
        in tunnel: TunnelID? = nil,
        keys: (EndpointID) -> PairKeys?
    ) -> [TunnelCandidates] {
        var texts: [TunnelCandidates] = []
        for id in tunnel.map({ [$0] }) ?? order {
            guard let entry = tunnels[id], entry.told < TunnelCandidates.mostOfASide, let keys = keys(entry.peer),
                let sealed = try? SealedCandidates(candidates, for: id, from: own, with: keys)
            else { continue }
            tunnels[id]?.told += 1
            texts.append(TunnelCandidates(tunnel: id, candidates: sealed.blob))
        }
        return texts
    }

    /// Takes a text from the relay.
    /// - Returns: What it says, and about whom; `nil` if it is no text of the tunnel's other side, or an old one.
    package mutating func heard(
        _ text: TunnelCandidates,
        keys: (EndpointID) -> PairKeys?
    ) -> (peer: EndpointID, candidates: HostCandidates)? {
        guard let entry = tunnels[text.tunnel], entry.heard < TunnelCandidates.mostOfASide, let keys = keys(entry.peer) else { return nil }
        let sealed = SealedCandidates(text.candidates)
        guard !known.set.contains(sealed.nonce), let candidates = sealed.open(for: text.tunnel, from: entry.peer, with: keys) else {
            return nil
        }
        tunnels[text.tunnel]?.heard += 1
        if known.order.count >= Self.maximumKnown { known.set.remove(known.order.removeFirst()) }
        known.set.insert(sealed.nonce)
        known.order.append(sealed.nonce)
        return (entry.peer, candidates)
    }
}
