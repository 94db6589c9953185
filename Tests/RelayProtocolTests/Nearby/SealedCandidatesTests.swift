// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct SealedCandidatesTests {
    private let pair: CandidatePair
    private let tunnel = CandidatePair.tunnel()

    init() throws { pair = try CandidatePair() }

    private static func random(_ random: inout SeededGenerator) -> HostCandidates? {
        let addresses = (0..<Int.random(in: 0...HostCandidates.maximumAddresses, using: &random)).compactMap { _ in
            IPAddress(bytes: random.bytes(random.oneIn(2) ? 4 : 16))
        }
        return HostCandidates(port: UInt16.random(in: HostCandidates.firstPort...UInt16.max, using: &random), addresses: addresses)
    }

    /// Whatever candidates are sealed, the other side reads them, and they fit into a message.
    @Test(arguments: 0..<200 as Range<UInt64>) func candidatesAreWhatWasSealed(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let candidates = try #require(Self.random(&random))
        let sealed = try SealedCandidates(candidates, for: tunnel, from: pair.peer.id, with: pair.peerKeys)
        #expect(sealed.open(for: tunnel, from: pair.peer.id, with: pair.ownKeys) == candidates)
        let message = TunnelCandidates(tunnel: tunnel, candidates: sealed.blob)
        let frame = try EndpointMessage.tunnelCandidates(message).encode()
        #expect(try EndpointMessage.decode(from: frame, limits: Limits()) == .message(.tunnelCandidates(message)))
        #expect(try RelayMessage.decode(from: frame, limits: Limits()) == .tunnelCandidates(message))
        // No two texts are alike.
        #expect(try SealedCandidates(candidates, for: tunnel, from: pair.peer.id, with: pair.peerKeys).blob != sealed.blob)
    }

    @Test func eachChangedBitIsNoticed() throws {
        let candidates = try #require(CandidatePair.candidates(4_711, "10.1.2.3", "fd00::1"))
        let sealed = try SealedCandidates(candidates, for: tunnel, from: pair.peer.id, with: pair.peerKeys)
        for bit in 0..<sealed.blob.bytes.count * 8 {
            var bytes = sealed.blob.bytes
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(SealedCandidates(Blob(bytes)).open(for: tunnel, from: pair.peer.id, with: pair.ownKeys) == nil, "bit \(bit)")
        }
        for count in 0..<sealed.blob.bytes.count {
            let cut = SealedCandidates(Blob(Array(sealed.blob.bytes.prefix(count))))
            #expect(cut.open(for: tunnel, from: pair.peer.id, with: pair.ownKeys) == nil, "\(count) bytes")
        }
    }

    @Test(
        arguments: [
            [:], ["port": 4_711], ["addresses": []], ["port": 1_023, "addresses": []], ["port": 65_536, "addresses": []],
            ["port": -1, "addresses": []], ["port": "4711", "addresses": []], ["port": 4_711, "addresses": .array([.data([1, 2, 3])])],
            ["port": 4_711, "addresses": ["10.0.0.1"]],
            ["port": 4_711, "addresses": .array(Array(repeating: .data([10, 0, 0, 1]), count: 9))],
        ] as [ValueSet]
    )
    func contentOfAnotherFormIsRejected(content: ValueSet) throws {
        #expect(HostCandidates(content: try content.encodedBytes()) == nil)
    }

    @Test func newerFieldsAreIgnored() throws {
        let content: ValueSet = ["port": 4_711, "addresses": .array([.data([10, 0, 0, 1])]), "more": true]
        #expect(HostCandidates(content: try content.encodedBytes()) == CandidatePair.candidates(4_711, "10.0.0.1"))
        #expect(HostCandidates(content: [0xFF]) == nil && HostCandidates(content: []) == nil)
    }

    @Test func ownAddressesAlternate() throws {
        func link(_ index: Int, _ addresses: String...) -> LinkInterface {
            let addresses = addresses.compactMap { IPAddress(parsing: $0.utf8) }
            return LinkInterface(index: index, name: "eth\(index)", addresses: addresses.map { .init($0, prefixLength: 24) })
        }
        let links = [link(2, "10.0.0.1", "fe80::1", "fd00::1"), link(3, "192.168.7.1", "169.254.1.1", "2001:db8::7")]
        let candidates = try #require(HostCandidates(port: 4_711, of: links))
        #expect(candidates.addresses.map(\.description) == ["fd00::1", "10.0.0.1", "2001:db8::7", "192.168.7.1"])
        #expect(HostCandidates(port: 4_711, of: [link(2, "fe80::1")]) == nil)
        let many = (1...20).map { link($0, "10.0.\($0).1") }
        #expect(HostCandidates(port: 4_711, of: many)?.addresses.count == HostCandidates.maximumAddresses)
    }
}
