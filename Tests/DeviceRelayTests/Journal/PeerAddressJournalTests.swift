// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Testing

@Suite struct PeerAddressJournalTests {
    private let directory: TemporaryDirectory
    private let journal: Journal

    init() throws {
        directory = try TemporaryDirectory()
        journal = try Journal(path: "\(directory.path)/journal.sqlite", endpoint: EndpointID(P256SigningKey().publicKey))
    }

    private func pin(_ peer: EndpointID) async throws {
        try await journal.write { try $0.store(JournalTransaction.Pin(endpoint: peer, record: [1], pinned: 1)) }
    }

    private func pinned() async throws -> EndpointID {
        let peer = EndpointID(P256SigningKey().publicKey)
        try await pin(peer)
        return peer
    }

    private func address(_ peer: EndpointID, _ bytes: [UInt8] = [10, 0, 0, 1], time: Int64 = 100) throws -> JournalTransaction.PeerAddress {
        .init(endpoint: peer, place: .init(address: try #require(IPAddress(bytes: bytes)), port: 4_711), time: time)
    }

    private func stored(since: Int64 = 0) throws -> [JournalTransaction.PeerAddress] {
        try journal.read { try $0.peerAddresses(since: since) }
    }

    @Test func lastAddressOfAPeerIsStored() async throws {
        let peer = try await pinned()
        let (old, new) = (try address(peer), try address(peer, Array(0..<16), time: 200))
        try await journal.write { try $0.store(old) }
        #expect(try stored() == [old])
        #expect(try stored(since: 100).isEmpty)
        try await journal.write { try $0.store(new) }
        #expect(try stored() == [new])
    }

    @Test func strangersHaveNoAddress() async throws {
        let address = try address(EndpointID(P256SigningKey().publicKey))
        try await journal.write { try $0.store(address) }
        #expect(try stored().isEmpty)
    }

    @Test(arguments: 0..<4) func addressGoesWithItsPeer(way: Int) async throws {
        let (peer, other) = (try await pinned(), try await pinned())
        let (address, kept) = (try address(peer), try address(other))
        try await journal.write {
            try $0.store(address)
            try $0.store(kept)
            switch way {
            case 0: try $0.storeRevocation(of: peer, [1], isUnsent: false)
            case 1: try $0.storeShutOut(peer, at: 1)
            case 2: _ = try $0.removePin(of: peer)
            default: try $0.forgetPeers()
            }
            // A session that was under way.
            try $0.store(address)
        }
        #expect(try stored() == (way == 3 ? [] : [kept]))
    }
}
