// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Limits the number of an endpoint's sessions. New peers may have a few. They are counted separately, so that they take no room from known
/// peers.
struct SessionRoom: Sendable {
    /// The maximum of sessions with one new peer, and with all new peers together.
    static let ofNewPeer = 2
    static let ofNewPeers = 8
    /// The maximum of sessions with one known peer. Each of its processes has a session, including each command of the command line.
    static let ofKnownPeer = 8

    /// Why another session is not permitted.
    enum Rejection: String, Hashable, Sendable {
        case newPeer = "a device that is not approved may have no more sessions"
        case knownPeer = "a device may have no more sessions with this one"
        case endpoint = "this device has as many sessions as it may"
    }

    private var known: [EndpointID: Int] = [:]
    private var new: [EndpointID: Int] = [:]
    private let most: Int

    /// - Parameters:
    ///   - peers: The peer of each session that exists or is being established.
    ///   - isKnown: Whether a peer is known now.
    ///   - most: The maximum of sessions with known peers.
    init(_ peers: some Sequence<EndpointID>, isKnown: (EndpointID) -> Bool, most: Int) {
        self.most = most
        for peer in peers {
            if isKnown(peer) { known[peer, default: 0] += 1 } else { new[peer, default: 0] += 1 }
        }
    }

    private var hasRoomForKnown: Bool { known.values.reduce(0, +) < most }

    /// Why this endpoint may not open a session now; `nil` if it may.
    var rejectionToOpen: Rejection? { hasRoomForKnown ? nil : .endpoint }

    /// Why a peer may not open a session now; `nil` if it may.
    func rejection(of peer: EndpointID, isKnown: Bool) -> Rejection? {
        guard isKnown else {
            return new[peer, default: 0] < Self.ofNewPeer && new.values.reduce(0, +) < Self.ofNewPeers ? nil : .newPeer
        }
        guard known[peer, default: 0] < Self.ofKnownPeer else { return .knownPeer }
        return hasRoomForKnown ? nil : .endpoint
    }
}
