// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Connects to a device that a person has made visible. Neither knows the other.
struct VisibleDialer: Sendable {
    /// Why there is no session.
    enum Failure: Error {
        case noNetwork
        case notReached
        /// Something listens there that takes no strangers, or not this endpoint.
        case notVisible
        case ownDevice
        case cancelled
    }

    /// The addresses that are tried, and the time for each.
    private static let maximumCandidates = 8
    private static let patience = Duration.seconds(3)

    private let endpoint: EndpointContext
    private let connector: SessionConnector

    init(_ endpoint: EndpointContext) throws {
        self.endpoint = endpoint
        connector = try SessionConnector(strangersOf: endpoint) { _, _ in .refuse(AppServiceError(.notAuthorized)) }
    }

    /// - Parameter expected: The endpoint; `nil` for whichever answers.
    func session(
        at candidates: [NearbyPeers.Candidate],
        expecting expected: EndpointID?
    ) async throws(Failure) -> (session: PeerSession, candidate: NearbyPeers.Candidate) {
        let links = NetworkInterfaces.read(endpoint.settings.nearby.interfaces).links
        guard !links.isEmpty else { throw .noNetwork }
        guard expected != endpoint.id else { throw .ownDevice }
        var last = Failure.notReached
        for candidate in candidates.filter({ NearbyReach.local.admits($0.address, on: links) }).prefix(Self.maximumCandidates) {
            guard let transport = transport(to: candidate, expected) else { continue }
            let session: PeerSession
            do throws(AppServiceError) {
                session = try await connector.open(to: expected, over: transport, timeout: Self.patience)
            } catch {
                if error.code == .cancelled { throw .cancelled }
                let cause = error.cause as? PeerTransportError
                if cause == .closedEarly || cause == .notProved { last = .notVisible }
                continue
            }
            guard session.peer != endpoint.id else {
                await session.shutDown()
                throw .ownDevice
            }
            return (session, candidate)
        }
        throw last
    }

    func openBulk(
        _ token: BulkToken,
        to peer: EndpointID,
        at candidate: NearbyPeers.Candidate
    ) async throws(AppServiceError) -> BulkStream {
        guard let transport = transport(to: candidate, peer) else { throw AppServiceError(.remoteSystemUnavailable) }
        return try await connector.openBulk(token, to: peer, over: transport)
    }

    private func transport(to candidate: NearbyPeers.Candidate, _ peer: EndpointID?) -> DirectTransport? {
        guard let address = SocketAddress(candidate) else { return nil }
        var random = SystemRandomNumberGenerator()
        // Without keys, the ids say nothing.
        let knock = KnockExchange.Dialer(own: endpoint.id, peer: peer ?? endpoint.id, keys: nil, using: &random)
        return DirectTransport(address: address, knock: knock, loop: endpoint.loop.eventLoop)
    }
}

extension SessionConnector {
    /// Sessions of endpoints that do not know each other.
    /// - Parameter bulk: The bulk streams that they may open.
    init(strangersOf endpoint: EndpointContext, bulk: BulkStreams = BulkStreams(), admit: @escaping SessionAdmitter) throws {
        self.init(
            certificate: try EndpointCertificate(endpoint.identityKey),
            limits: endpoint.settings.limits.all,
            timing: endpoint.settings.sessionTiming,
            memory: SessionMemory(limits: endpoint.settings.limits.all),
            bulk: bulk,
            admit: admit
        )
    }
}
