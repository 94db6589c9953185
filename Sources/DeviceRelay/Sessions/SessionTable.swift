// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The sessions of an endpoint, by peer.
///
/// Both endpoints of a pair may open a session at the same time. Then both use, for new connections, the session that the endpoint with the
/// smaller id opened. The other session ends after its connections have closed. If a second session is added, its owner probes the older
/// one, so that a session whose peer no longer responds ends soon. Of several sessions that the same side opened, the newest is used,
/// because a second one is opened only if the first is no longer usable.
package struct SessionTable<Session: AnyObject & Sendable>: Sendable {
    private struct Entry {
        let session: Session
        let isOpenedHere: Bool
    }

    private let own: EndpointID
    private var entries: [EndpointID: [Entry]] = [:]

    /// - Parameter own: The endpoint's own id.
    package init(own: EndpointID) { self.own = own }

    /// All sessions.
    package var sessions: [Session] { entries.values.flatMap { $0.map(\.session) } }

    package var count: Int { entries.values.reduce(0) { $0 + $1.count } }

    /// Adds an established session. The caller checks the limit `sessionsPerEndpoint`.
    package mutating func add(_ session: Session, with peer: EndpointID, isOpenedHere: Bool) {
        entries[peer, default: []].append(Entry(session: session, isOpenedHere: isOpenedHere))
    }

    /// Removes a session that has ended, or accepts no new connections.
    package mutating func remove(_ session: Session, with peer: EndpointID) {
        entries[peer]?.removeAll { $0.session === session }
        if entries[peer]?.isEmpty == true { entries[peer] = nil }
    }

    /// All sessions with a peer, the oldest first.
    package func sessions(with peer: EndpointID) -> [Session] { entries[peer]?.map(\.session) ?? [] }

    /// The session for new connections to a peer.
    /// - Parameter isUsable: Which sessions come into question. Default: all.
    package func session(with peer: EndpointID, where isUsable: (Session) -> Bool = { _ in true }) -> Session? {
        guard let entries = entries[peer]?.filter({ isUsable($0.session) }) else { return nil }
        let isOursPreferred = own < peer
        return (entries.last { $0.isOpenedHere == isOursPreferred } ?? entries.last)?.session
    }
}
