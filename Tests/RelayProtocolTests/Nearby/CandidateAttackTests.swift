// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// A relay that swaps, replays or alters candidates, and a peer that names places at which it does not listen.
@Suite struct CandidateAttackTests {
    private let pair: CandidatePair
    private let candidates: HostCandidates

    init() throws {
        pair = try CandidatePair()
        candidates = try #require(CandidatePair.candidates(4_711, "10.1.2.3"))
    }

    @Test func relayCannotAlterCandidates() throws {
        let tunnel = CandidatePair.tunnel()
        var exchange = pair.exchange(with: tunnel)
        let text = try pair.text(candidates, in: tunnel)
        for index in text.candidates.bytes.indices {
            var altered = text
            var bytes = text.candidates.bytes
            bytes[index] ^= 1
            altered.candidates = Blob(bytes)
            #expect(exchange.heard(altered, keys: pair.keys) == nil)
        }
        // And what it tried takes nothing from the peer's own.
        #expect(exchange.heard(text, keys: pair.keys)?.candidates == candidates)
    }

    @Test func relayCannotSwapCandidates() throws {
        let (one, two, unknown) = (CandidatePair.tunnel(), CandidatePair.tunnel(), CandidatePair.tunnel())
        var exchange = pair.exchange(with: one, two)
        for tunnel in [two, unknown] {
            var moved = try pair.text(candidates, in: one)
            moved.tunnel = tunnel
            #expect(exchange.heard(moved, keys: pair.keys) == nil)
        }
        // Back to the one who said it.
        let own = try #require(exchange.tell(candidates, in: one, keys: pair.keys).first)
        #expect(exchange.heard(own, keys: pair.keys) == nil)
        // Those of another peer in the tunnel of this one.
        let other = CandidatePair.Device()
        let foreign = try SealedCandidates(candidates, for: one, from: other.id, with: try other.keys(with: pair.own))
        #expect(exchange.heard(.init(tunnel: one, candidates: foreign.blob), keys: pair.keys) == nil)
        // A peer that speaks for another one.
        let spoken = try SealedCandidates(candidates, for: one, from: other.id, with: pair.peerKeys)
        #expect(exchange.heard(.init(tunnel: one, candidates: spoken.blob), keys: pair.keys) == nil)
    }

    @Test func relayCannotReplayCandidates() throws {
        let tunnel = CandidatePair.tunnel()
        var exchange = pair.exchange(with: tunnel)
        let text = try pair.text(candidates, in: tunnel)
        #expect(exchange.heard(text, keys: pair.keys) != nil)
        #expect(exchange.heard(text, keys: pair.keys) == nil)
        exchange.ended(tunnel)
        #expect(exchange.heard(text, keys: pair.keys) == nil)
        // In a tunnel to which it gives the same id.
        exchange.began(tunnel, with: pair.peer.id)
        #expect(exchange.heard(text, keys: pair.keys) == nil)
    }

    /// A trusted device is no tool to reach services of this one or of its network.
    @Test func peerCannotNameOtherServices() throws {
        for port in [0, 22, 80, 443, 1_023] as [UInt16] { #expect(CandidatePair.candidates(port, "10.1.2.3") == nil) }
        let named = try #require(
            CandidatePair.candidates(4_711, "127.0.0.1", "0.0.0.0", "::1", "::", "224.0.0.251", "255.255.255.255", "ff02::fb", "fe80::1")
        )
        #expect(named.addresses.isEmpty)
        let more = try #require(
            CandidatePair.candidates(4_711, "169.254.169.254", "::ffff:127.0.0.1", "203.0.113.9", "10.0.0.1", "10.0.0.2")
        )
        #expect(more.addresses.map(\.description) == ["203.0.113.9", "10.0.0.1", "10.0.0.2"])
        // An address of the Internet, and this machine's own one, are not dialled.
        var nearby = NearbyPeers()
        nearby.recognise([pair.peer.id: pair.ownKeys])
        let own = try #require(IPAddress(bytes: [10, 0, 0, 1]))
        let links = [LinkInterface(index: 2, name: "eth0", addresses: [.init(own, prefixLength: 24)])]
        nearby.hints.told(more, by: pair.peer.id, at: 0)
        let dialled = nearby.candidates(for: pair.peer.id, hour: 0, at: 0, on: links) { NearbyReach.local.admits($0, on: links) }
        #expect(dialled.map(\.address.description) == ["10.0.0.2"])
    }
}
