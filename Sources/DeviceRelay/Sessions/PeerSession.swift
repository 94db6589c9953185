// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
package import RelayProtocol

/// What an endpoint makes of a peer's wish for a connection.
package enum SessionAdmission: Sendable {
    case serve(AppService, AppServiceInfo, AppServiceCaller)
    /// With the error's code and message.
    case refuse(AppServiceError)

    /// What follows from what an app offers.
    /// - Parameters:
    ///   - services: Those of the app that is asked for; `nil` if there is no such app.
    ///   - caller: Who asks. Whether it may at all is for the endpoint to have decided.
    package init(_ services: [AppService]?, for opening: SessionOpening, from caller: AppServiceCaller) {
        guard let services else {
            self = .refuse(AppServiceError(.appNotInstalled))
            return
        }
        guard let service = services.first(where: { $0.name == opening.serviceName }) else {
            self = .refuse(AppServiceError(.appServiceUnavailable))
            return
        }
        guard service.allows(caller.appID) else {
            self = .refuse(AppServiceError(.remoteSystemNotSupportedByApp))
            return
        }
        self = .serve(service, AppServiceInfo(name: service.name, appID: opening.appID), caller)
    }
}

/// Decides on a wish. The peer is the one that TLS has proved; the app that calls is only what it says.
package typealias SessionAdmitter = @Sendable (EndpointID, SessionOpening) async -> SessionAdmission

/// Why a session could not be opened.
package enum SessionStartError: Error, Hashable, Sendable {
    /// The other is not the endpoint that was meant, is not known here, or does not take this endpoint; or it does not speak this protocol.
    case notAuthentic
    /// The stream broke off.
    case broken
    case timedOut
}

/// An established session with another endpoint.
///
/// It keeps itself alive, and ends by itself a minute after its last connection, when the peer goes, or when the stream breaks.
package final class PeerSession: Sendable {
    /// How long a session that is over may write its last words.
    static let closingTime = TimeAmount.seconds(2)

    /// Whom it is with, as its key proved.
    package let peer: EndpointID
    /// Whether this side opened it.
    package let isOpenedHere: Bool
    private let link: SessionLink

    init(peer: EndpointID, isOpenedHere: Bool, link: SessionLink) {
        self.peer = peer
        self.isOpenedHere = isOpenedHere
        self.link = link
    }

    /// Opens a connection to an app service of the peer.
    /// - Parameters:
    ///   - appID: The app that asks, for the other side's information.
    ///   - timeout: Until the service has taken the connection.
    /// - Throws: Why not. If the cause is `SessionEnding`, another session will do.
    package func open(
        _ info: AppServiceInfo,
        from appID: String = "",
        timeout: Duration
    ) async throws(AppServiceError) -> AppServiceConnection {
        let opening = SessionOpening(serviceName: info.name, appID: info.appID, callerAppID: appID, timeLeft: timeout)
        return try await link.ask { token, continuation in
            .other { handler in handler.open(opening, info, token, timeout: timeout, continuation) }
        }
    }

    /// Takes no new connections, in either direction. The session ends when the last has gone.
    package func drain() { link.enqueue { handler in handler.change { $0.drain(into: &$2) } } }

    /// Ends soon unless the peer shows life: there is a newer session with it.
    package func probe() { link.enqueue { handler in handler.change { $0.probe(at: $1, into: &$2) } } }

    /// Closes all connections, and then the session: answers that were given leave, if the peer takes them within two seconds. Services
    /// that are still running are cancelled. Returns when the channel is closed.
    package func shutDown() async {
        link.enqueue { handler in handler.shutDown() }
        await link.waitUntilClosed()
    }

    /// How it ended, once it has; `nil` if the task is cancelled before.
    package func ended() async -> SessionEnd? { await link.end.wait() }

    /// Whether it has ended.
    package var hasEnded: Bool { link.end.value != nil }

    /// What the session holds, by kind and without what there is none of: for tests and diagnosis.
    package func inventory() async -> [String: Int] {
        await withCheckedContinuation { continuation in
            link.enqueue { handler in continuation.resume(returning: handler.inventory) }
        }
    }
}
