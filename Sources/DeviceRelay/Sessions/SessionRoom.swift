// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How many sessions an endpoint has at once. New peers may hold a few. Known peers are counted apart, so that new ones take no room of theirs.
struct SessionRoom: Sendable {
    /// Sessions that one new peer may have, and all new ones together.
    static let ofNewPeer = 2
    static let ofNewPeers = 8
    /// Sessions that one known peer may have. Each of its processes has one: a command line's commands too.
    static let ofKnownPeer = 8

    /// Why there is no room.
    enum Refusal: String, Hashable, Sendable {
        case newPeer = "a device that is not approved may have no more sessions"
        case knownPeer = "a device may have no more sessions with this one"
        case endpoint = "this device has as many sessions as it may"
    }

    private var known: [EndpointID: Int] = [:]
    private var new: [EndpointID: Int] = [:]
    private let most: Int

    /// - Parameters:
    ///   - peers: The peer of each session that there is, and of each that is being made.
    ///   - isKnown: Whether a peer is known now.
    ///   - most: Sessions with known peers.
    init(_ peers: some Sequence<EndpointID>, isKnown: (EndpointID) -> Bool, most: Int) {
        self.most = most
        for peer in peers {
            if isKnown(peer) { known[peer, default: 0] += 1 } else { new[peer, default: 0] += 1 }
        }
    }

    private var hasRoomForKnown: Bool { known.values.reduce(0, +) < most }

    /// Why this endpoint opens no session now; `nil` if it may.
    var refusalToOpen: Refusal? { hasRoomForKnown ? nil : .endpoint }

    /// Why a peer opens no session now; `nil` if it may.
    func refusal(of peer: EndpointID, isKnown: Bool) -> Refusal? {
        guard isKnown else {
            return new[peer, default: 0] < Self.ofNewPeer && new.values.reduce(0, +) < Self.ofNewPeers ? nil : .newPeer
        }
        guard known[peer, default: 0] < Self.ofKnownPeer else { return .knownPeer }
        return hasRoomForKnown ? nil : .endpoint
    }
}
