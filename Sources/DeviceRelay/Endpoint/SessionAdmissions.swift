// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Decides which service a peer may use on a session. It is used on the endpoint's event loop.
final class SessionAdmissions {
    private let endpoint: EndpointContext
    private let peers: Peers
    private let publisher: Publisher
    /// What the endpoint itself serves on direct sessions, beside the greeting.
    var directService: () -> AppService? = { nil }
    /// What the endpoint itself serves on all sessions.
    var ownService: () -> AppService? = { nil }
    /// The records of peers that opened sessions, including peers that are not in the directory.
    private var introduced: [EndpointID: EndpointRecord] = [:]

    init(_ endpoint: EndpointContext, _ peers: Peers, _ publisher: Publisher) {
        (self.endpoint, self.peers, self.publisher) = (endpoint, peers, publisher)
    }

    /// Keeps the record of a peer that opens a session.
    func introduce(_ record: EndpointRecord, of peer: EndpointID) { introduced[peer] = record }

    func forget(_ peer: EndpointID) { introduced[peer] = nil }

    /// Forgets the records of all other peers.
    func keep(only peers: Set<EndpointID>) { introduced = introduced.filter { peers.contains($0.key) } }

    /// The app of a peer that asks for a connection; `nil` if the peer is unknown or revoked.
    func caller(_ peer: EndpointID, appID: String?) -> AppServiceCaller? {
        guard !peers.isRefused(peer), let record = peers.record(of: peer) ?? introduced[peer] else { return nil }
        return AppServiceCaller(
            accountID: endpoint.account.id,
            deviceName: record.name,
            systemID: RemoteSystem.ID(record.systemID),
            endpoint: peer,
            appID: appID,
            isNew: !peers.isTrusted(peer)
        )
    }

    /// Decides which service a peer may use.
    func admit(_ peer: EndpointID, _ opening: SessionOpening) -> SessionAdmission {
        guard let caller = caller(peer, appID: opening.callerAppID.isEmpty ? nil : opening.callerAppID) else {
            return .refuse(AppServiceError(.notAuthorized))
        }
        let app = publisher.app(opening.appID)
        guard !caller.isNew || app?.newCallers == .everything else {
            let reason = peers.isConfirmed(peer) ? AccessPolicy.notUpToDate : AccessPolicy.newcomer(peer)
            return .refuse(AppServiceError(.notAuthorized, message: reason))
        }
        guard opening.appID != Greeting.info.appID else {
            return SessionAdmission(ownService().map { [$0] }, for: opening, from: caller)
        }
        if let app, !app.allows(caller.appID, of: peers.identity(ofApp: caller.appID, at: peer)) {
            return .refuse(AppServiceError(.remoteSystemNotSupportedByApp))
        }
        return SessionAdmission(app?.services, for: opening, from: caller)
    }

    /// Decides the same on a direct session, after the greeting.
    func admitDirectly(_ peer: EndpointID, _ opening: SessionOpening) -> SessionAdmission {
        guard opening.appID == Greeting.info.appID else { return admit(peer, opening) }
        guard peers.isConfirmed(peer), let caller = caller(peer, appID: nil) else { return .refuse(AppServiceError(.notAuthorized)) }
        let services = [directService(), caller.isNew ? nil : ownService()].compactMap(\.self)
        return SessionAdmission(services.isEmpty ? nil : services, for: opening, from: caller)
    }
}
