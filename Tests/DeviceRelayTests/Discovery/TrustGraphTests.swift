// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

@Suite struct TrustGraphTests {
    private static let ids = (0..<8).map { EndpointID(digest: Digest256(hashing: [$0])) }
    private static let systems = (0..<3).map { SystemID(digest: Digest256(hashing: [100 + $0])) }

    @Test func onlyTheOwnEndpointIsKnownAtFirst() {
        let graph = TrustGraph(own: Self.ids[0])
        #expect(graph.known == [Self.ids[0]: .verified])
    }

    @Test func verifiedChainWinsOverAShorterFirstSeenChain() {
        var graph = TrustGraph(own: Self.ids[0], pins: [Self.ids[1]: .verified])
        graph.setVouchers([Self.ids[1]: .firstSeen, Self.ids[3]: .verified], for: Self.ids[4])
        #expect(graph.known[Self.ids[4]] == .firstSeen)
        graph.setVouchers([Self.ids[1]: .verified], for: Self.ids[2])
        graph.setVouchers([Self.ids[2]: .verified], for: Self.ids[3])
        #expect(graph.known[Self.ids[4]] == .verified)
        graph.revoke(Self.ids[2])
        #expect(graph.known[Self.ids[3]] == nil)
        #expect(graph.known[Self.ids[4]] == .firstSeen)
    }

    @Test func ownEndpointCannotBeRevoked() {
        var graph = TrustGraph(own: Self.ids[0])
        graph.revoke(Self.ids[0])
        graph.revokeByRelay(Self.ids[0])
        #expect(!graph.isRefused(Self.ids[0]))
        #expect(graph.known[Self.ids[0]] == .verified)
    }

    /// Compares with a slow model that raises levels until nothing changes.
    @Test(arguments: 0..<50) func trustGraphMatchesItsDefinition(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let own = Self.ids[0]
        var graph = TrustGraph(own: own)
        var pins: [EndpointID: Voucher.VerificationLevel] = [:]
        var vouchers: [EndpointID: [EndpointID: Voucher.VerificationLevel]] = [:]
        var systems: [EndpointID: SystemID] = [:]
        var (revoked, revokedByRelay): (Set<EndpointID>, Set<EndpointID>) = ([], [])
        for _ in 0..<60 {
            guard let one = Self.ids.randomElement(using: &random), let other = Self.ids.randomElement(using: &random),
                let system = Self.systems.randomElement(using: &random)
            else { continue }
            let knowledge: Voucher.VerificationLevel = Bool.random(using: &random) ? .verified : .firstSeen
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<2:
                _ = graph.pin(one, knowledge)
                if one != own, !revoked.contains(one) { pins[one] = max(pins[one] ?? .firstSeen, knowledge) }
            case 2..<10:
                graph.addVoucher(by: one, for: other, knowledge)
                vouchers[other, default: [:]][one] = knowledge
            case 10..<12:
                graph.setVouchers([one: knowledge], for: other)
                vouchers[other] = [one: knowledge]
            case 12..<15:
                graph.setSystem(system, of: one)
                systems[one] = system
            case 15:
                graph.revoke(one)
                if one != own { (_, pins[one]) = (revoked.insert(one), nil) }
                revokedByRelay.remove(one)
            case 16:
                graph.revokeByRelay(one)
                if one != own, !revoked.contains(one) { revokedByRelay.insert(one) }
            case 17:
                graph.restore(one)
                revokedByRelay.remove(one)
            default:
                graph.forget(one)
                systems[one] = nil
                vouchers[one] = nil
            }
            let refused = revoked.union(revokedByRelay)
            var known: [EndpointID: Voucher.VerificationLevel] = pins.filter { !refused.contains($0.key) }
            known[own] = .verified
            var isStable = false
            while !isStable {
                let before = known
                for endpoint in Self.ids where !refused.contains(endpoint) {
                    var words = [known[endpoint]]
                    for (giver, word) in vouchers[endpoint] ?? [:] { words.append(before[giver].map { min($0, word) }) }
                    for sibling in Self.ids where systems[sibling] != nil && systems[sibling] == systems[endpoint] {
                        words.append(before[sibling])
                    }
                    known[endpoint] = words.compactMap { $0 }.max()
                }
                isStable = known == before
            }
            #expect(graph.known == known)
        }
    }
}
