// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The sessions of an endpoint, by peer.
///
/// Both endpoints of a pair may open one at the same time. Then new connections use the one that was opened by the endpoint with the smaller
/// id, on both sides, and the other ends by itself when its connections have gone. One that does not answer is none of both: its owner asks
/// for a sign of life when there is a second one. Of sessions that the same side opened, the newest
/// is used: nobody opens a second one unless the first no longer serves.
package struct SessionTable<Session: AnyObject & Sendable>: Sendable {
    private struct Entry {
        let session: Session
        let isOpenedHere: Bool
    }

    private let own: EndpointID
    private var entries: [EndpointID: [Entry]] = [:]

    /// - Parameter own: The endpoint's own id.
    package init(own: EndpointID) { self.own = own }

    /// All of them.
    package var sessions: [Session] { entries.values.flatMap { $0.map(\.session) } }

    package var count: Int { entries.values.reduce(0) { $0 + $1.count } }

    /// Adds a session that is established. At most `sessionsPerEndpoint` should be; that is its owner's to check.
    package mutating func add(_ session: Session, with peer: EndpointID, isOpenedHere: Bool) {
        entries[peer, default: []].append(Entry(session: session, isOpenedHere: isOpenedHere))
    }

    /// Removes a session that has ended, or takes no new connections.
    package mutating func remove(_ session: Session, with peer: EndpointID) {
        entries[peer]?.removeAll { $0.session === session }
        if entries[peer]?.isEmpty == true { entries[peer] = nil }
    }

    /// All with a peer, the oldest first.
    package func sessions(with peer: EndpointID) -> [Session] { entries[peer]?.map(\.session) ?? [] }

    /// The session for new connections to a peer.
    package func session(with peer: EndpointID) -> Session? {
        guard let entries = entries[peer] else { return nil }
        let isOursPreferred = own < peer
        return (entries.last { $0.isOpenedHere == isOursPreferred } ?? entries.last)?.session
    }
}
