// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite struct SessionRoomTests {
    private static let peers = (0..<20).map { _ in EndpointID(P256SigningKey().publicKey) }

    private static func room(known: [EndpointID] = [], new: [EndpointID] = [], most: Int = 10) -> SessionRoom {
        let isKnown = Set(known)
        return SessionRoom(known + new, isKnown: isKnown.contains, most: most)
    }

    @Test func newPeerHasAtMostTwoSessions() {
        let peer = Self.peers[0]
        #expect(Self.room().rejection(of: peer, isKnown: false) == nil)
        #expect(Self.room(new: [peer]).rejection(of: peer, isKnown: false) == nil)
        #expect(Self.room(new: [peer, peer]).rejection(of: peer, isKnown: false) == .newPeer)
        #expect(Self.room(new: [peer, peer]).rejection(of: Self.peers[1], isKnown: false) == nil)
    }

    @Test func newPeersTogetherAreLimited() {
        let new = Array(Self.peers[..<8])
        let room = Self.room(new: new, most: 1)
        #expect(room.rejection(of: Self.peers[9], isKnown: false) == .newPeer)
        #expect(room.rejection(of: Self.peers[9], isKnown: true) == nil)
        #expect(room.rejectionToOpen == nil)
    }

    @Test func knownPeersAreLimitedEachAndTogether() {
        let peer = Self.peers[0]
        #expect(Self.room(known: Array(repeating: peer, count: 7)).rejection(of: peer, isKnown: true) == nil)
        #expect(Self.room(known: Array(repeating: peer, count: 8)).rejection(of: peer, isKnown: true) == .knownPeer)
        let full = Self.room(known: Array(Self.peers[..<10]))
        #expect(full.rejection(of: Self.peers[11], isKnown: true) == .endpoint)
        #expect(full.rejectionToOpen == .endpoint)
        // That known ones fill it shuts no new one out, nor in.
        #expect(full.rejection(of: Self.peers[11], isKnown: false) == nil)
    }
}
