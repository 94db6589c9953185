// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct CandidateExchangeTests {
    private let pair: CandidatePair
    private let candidates: HostCandidates

    init() throws {
        pair = try CandidatePair()
        candidates = try #require(CandidatePair.candidates(4_711, "10.1.2.3"))
    }

    @Test func otherSideIsTold() throws {
        let (one, two) = (CandidatePair.tunnel(), CandidatePair.tunnel())
        var own = pair.exchange(with: one, two)
        var peer = CandidateExchange(own: pair.peer.id)
        peer.began(two, with: pair.own.id)
        let text = try #require(own.tell(candidates, in: two, keys: pair.keys).first)
        #expect(text.tunnel == two)
        let heard = try #require(peer.heard(text) { $0 == pair.own.id ? pair.peerKeys : nil })
        #expect(heard.peer == pair.own.id && heard.candidates == candidates)
        // All are told of another network, and none that has ended.
        #expect(own.tell(candidates, keys: pair.keys).map(\.tunnel) == [one, two])
        own.ended(one)
        #expect(own.tell(candidates, keys: pair.keys).map(\.tunnel) == [two])
    }

    @Test func endpointWithoutKeysIsNotTold() {
        let (tunnel, stranger) = (CandidatePair.tunnel(), EndpointID(P256SigningKey().publicKey))
        var exchange = CandidateExchange(own: pair.own.id)
        exchange.began(tunnel, with: stranger)
        #expect(exchange.tell(candidates, keys: pair.keys).isEmpty)
        // Nor is one whose keys were dropped, as those of a revoked endpoint are.
        exchange.began(CandidatePair.tunnel(), with: pair.peer.id)
        #expect(exchange.tell(candidates) { _ in nil }.isEmpty)
    }

    @Test func textsOfATunnelAreLimited() throws {
        let tunnel = CandidatePair.tunnel()
        var exchange = pair.exchange(with: tunnel)
        for _ in 0..<TunnelCandidates.mostOfASide {
            #expect(exchange.tell(candidates, keys: pair.keys).count == 1)
            #expect(exchange.heard(try pair.text(candidates, in: tunnel), keys: pair.keys) != nil)
        }
        #expect(exchange.tell(candidates, keys: pair.keys).isEmpty)
        #expect(exchange.heard(try pair.text(candidates, in: tunnel), keys: pair.keys) == nil)
        // A repeated offer begins nothing anew.
        exchange.began(tunnel, with: pair.peer.id)
        #expect(exchange.tell(candidates, keys: pair.keys).isEmpty)
    }

    /// Whatever happens in whatever order, only living tunnels are told, each within its limit, and each text counts once.
    @Test(arguments: 0..<50 as Range<UInt64>) func everythingIsBounded(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var exchange = CandidateExchange(own: pair.own.id)
        var (living, told, texts): (Set<TunnelID>, [TunnelID: Int], [TunnelCandidates]) = ([], [:], [])
        var taken: Set<[UInt8]> = []
        for _ in 0..<300 {
            switch Int.random(in: 0..<6, using: &random) {
            case 0:
                let tunnel = CandidatePair.tunnel()
                exchange.began(tunnel, with: pair.peer.id)
                if living.count < CandidateExchange.maximumTunnels { living.insert(tunnel) }
            case 1:
                guard let tunnel = living.randomElement(using: &random) else { continue }
                exchange.ended(tunnel)
                living.remove(tunnel)
            case 2:
                for text in exchange.tell(candidates, keys: pair.keys) {
                    told[text.tunnel, default: 0] += 1
                    #expect(living.contains(text.tunnel))
                }
            case 3: if let tunnel = living.randomElement(using: &random) { texts.append(try pair.text(candidates, in: tunnel)) }
            default:
                guard let text = texts.randomElement(using: &random), let heard = exchange.heard(text, keys: pair.keys) else { continue }
                #expect(living.contains(text.tunnel) && heard.peer == pair.peer.id)
                #expect(taken.insert(text.candidates.bytes).inserted)
            }
        }
        #expect(told.values.allSatisfy { $0 <= TunnelCandidates.mostOfASide })
    }

    @Test func oldestTunnelIsForgotten() {
        let first = CandidatePair.tunnel()
        var exchange = pair.exchange(with: first)
        for _ in 0..<CandidateExchange.maximumTunnels { exchange.began(CandidatePair.tunnel(), with: pair.peer.id) }
        #expect(exchange.tell(candidates, keys: pair.keys).count == CandidateExchange.maximumTunnels)
        #expect(exchange.tell(candidates, in: first, keys: pair.keys).isEmpty)
    }
}
