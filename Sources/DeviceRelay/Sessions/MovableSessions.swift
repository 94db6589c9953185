// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// The sessions that peers have opened to an endpoint and may move to other streams. A peer finds only its own ones.
final class MovableSessions: Sendable {
    private struct Key: Hashable {
        let peer: EndpointID
        let id: SessionID
    }

    private let links = Mutex<[Key: SessionLink]>([:])

    func session(_ id: SessionID, of peer: EndpointID) -> SessionLink? { links.withLock { $0[Key(peer: peer, id: id)] } }

    /// Adds a session. An id that the peer uses twice stays with its first session.
    func add(_ link: SessionLink, _ id: SessionID, of peer: EndpointID) {
        links.withLock { $0[Key(peer: peer, id: id)] = $0[Key(peer: peer, id: id)] ?? link }
    }

    func remove(_ link: SessionLink, _ id: SessionID, of peer: EndpointID) {
        links.withLock { if $0[Key(peer: peer, id: id)] === link { $0[Key(peer: peer, id: id)] = nil } }
    }
}
