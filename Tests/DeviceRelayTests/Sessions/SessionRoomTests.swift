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
        #expect(Self.room().refusal(of: peer, isKnown: false) == nil)
        #expect(Self.room(new: [peer]).refusal(of: peer, isKnown: false) == nil)
        #expect(Self.room(new: [peer, peer]).refusal(of: peer, isKnown: false) == .newPeer)
        #expect(Self.room(new: [peer, peer]).refusal(of: Self.peers[1], isKnown: false) == nil)
    }

    @Test func newPeersTogetherAreLimited() {
        let new = Array(Self.peers[..<8])
        let room = Self.room(new: new, most: 1)
        #expect(room.refusal(of: Self.peers[9], isKnown: false) == .newPeer)
        #expect(room.refusal(of: Self.peers[9], isKnown: true) == nil)
        #expect(room.refusalToOpen == nil)
    }

    @Test func knownPeersAreLimitedEachAndTogether() {
        let peer = Self.peers[0]
        #expect(Self.room(known: Array(repeating: peer, count: 7)).refusal(of: peer, isKnown: true) == nil)
        #expect(Self.room(known: Array(repeating: peer, count: 8)).refusal(of: peer, isKnown: true) == .knownPeer)
        let full = Self.room(known: Array(Self.peers[..<10]))
        #expect(full.refusal(of: Self.peers[11], isKnown: true) == .endpoint)
        #expect(full.refusalToOpen == .endpoint)
        // That known ones fill it shuts no new one out, nor in.
        #expect(full.refusal(of: Self.peers[11], isKnown: false) == nil)
    }
}
