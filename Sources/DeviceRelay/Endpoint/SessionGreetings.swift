// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// What direct sessions begin with: both sides tell each other what the relay would. It is used on the endpoint's event loop.
final class SessionGreetings {
    private let endpoint: EndpointContext
    private let identity: OwnIdentity
    private let peers: Peers
    private let publisher: Publisher
    private let admissions: SessionAdmissions
    /// The digests of the revocations here and there, at the last greeting with each peer.
    private var lastRevocations: [EndpointID: [Digest256]] = [:]
    /// Called with each session whose peer has proved itself and told everything.
    var onGreeted: (PeerSession) -> Void = { _ in }

    init(_ endpoint: EndpointContext, _ identity: OwnIdentity, _ peers: Peers, _ publisher: Publisher, _ admissions: SessionAdmissions) {
        (self.endpoint, self.identity, self.peers) = (endpoint, identity, peers)
        (self.publisher, self.admissions) = (publisher, admissions)
    }

    private var loop: EndpointLoop { endpoint.loop }

    /// - Throws: If the peer is unknown or revoked.
    func greeting(with peer: EndpointID) throws(AppServiceError) -> Greeting {
        guard let caller = admissions.caller(peer, appID: nil) else { throw SessionPool.revoked }
        return Greeting(host(caller))
    }

    /// A copy of a connector whose sessions hold what the peer asks for until a greeting is done.
    func admitting(_ greeting: Greeting, _ connector: SessionConnector) -> SessionConnector {
        let bound = NIOLoopBound(Weak(admissions), eventLoop: loop.eventLoop)
        let loop = loop
        return connector.direct(
            admitting: greeting.admitting { peer, opening in
                await loop.run(bound) { $0.object?.admitDirectly(peer, opening) } ?? .refuse(AppServiceError(.appUnavailable))
            }
        )
    }

    /// Waits until both sides have told each other everything. Ends the session if they have not, unless it is an earlier one that goes on
    /// over another path, or can: it has moved to the path of this greeting, where the time is over.
    /// - Parameter moves: How often the session had moved when it came to the path of this greeting.
    func exchange(_ greeting: Greeting, over session: PeerSession, since moves: Int) async throws(AppServiceError) {
        do throws(AppServiceError) {
            try await greeting.exchange(over: session)
        } catch {
            let goesOn = moves > 0 && (error.code == .timedOut || session.moves > moves)
            if !goesOn { await session.shutDown(error.code == .cancelled ? nil : "the devices have not greeted each other") }
            throw error
        }
        // What the peer told may have taken its own confirmation away.
        guard peers.isConfirmed(session.peer) else {
            await session.shutDown(SessionPool.revoked.message)
            throw SessionPool.revoked
        }
        onGreeted(session)
    }

    /// What greetings with a peer read and change.
    private func host(_ caller: AppServiceCaller) -> Greeting.Host {
        let bound = NIOLoopBound(Weak(self), eventLoop: loop.eventLoop)
        let (loop, peer) = (loop, caller.endpoint)
        return Greeting.Host(
            caller: caller,
            own: {
                let own = try await loop.run(bound) { greetings in Result { try greetings.object?.greeting() } }.get()
                guard let own else { throw AppServiceError(.cancelled) }
                return own
            },
            revocations: { try await loop.run(bound) { greetings in Result { try greetings.object?.peers.revocations() } }.get() ?? [] },
            greeted: { greet in await loop.run(bound) { $0.object?.greeted(by: peer, greet) } ?? false },
            revoked: { signed in await loop.run(bound) { $0.object?.peers.heard(signed) } ?? false },
            informed: { digest in await loop.run(bound) { $0.object?.informed(by: peer, digest) } }
        )
    }

    private func greeting() throws -> Greeting.Greet {
        Greeting.Greet(
            record: try identity.currentRecord().encoded,
            registrations: try publisher.registrations(),
            revocations: try peers.revocationDigest()
        )
    }

    /// - Returns: Whether the peer's revocations are wanted: if they are other ones, unless both sides are as they were when all had come.
    private func greeted(by peer: EndpointID, _ greet: Greeting.Greet) -> Bool {
        peers.greeted(by: peer, record: greet.record, registrations: greet.registrations)
        guard let own = try? peers.revocationDigest() else { return true }
        return own != greet.revocations && lastRevocations[peer] != [own, greet.revocations]
    }

    private func informed(by peer: EndpointID, _ revocations: Digest256) {
        guard let own = try? peers.revocationDigest() else { return }
        lastRevocations[peer] = [own, revocations]
    }
}
