// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
package import RelayProtocol
import RelayTracing

/// The decision about a peer's request for a connection.
package enum SessionAdmission: Sendable {
    case serve(AppService, AppServiceInfo, AppServiceCaller)
    /// With the error's code and message.
    case refuse(AppServiceError)

    /// Decides by the services that an app offers.
    /// - Parameters:
    ///   - services: Those of the app that is asked for; `nil` if there is no such app.
    ///   - caller: The caller. The endpoint has already decided that it may call.
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

/// Decides about a request for a connection. TLS has proved the peer's endpoint id; the calling app's id is only the peer's statement.
package typealias SessionAdmitter = @Sendable (EndpointID, SessionOpening) async -> SessionAdmission

/// Why a session was not established.
package enum SessionStartError: Error, Hashable, Sendable {
    /// The peer is not the expected endpoint, is not known here, does not accept this endpoint, or does not use this protocol.
    case notAuthentic
    /// The stream ended during the handshake.
    case broken
    case timedOut
}

/// An established session with another endpoint.
///
/// It sends keep-alive messages. It ends a minute after its last connection has closed, when the peer ends it, or when it has no stream for
/// 30 s; at once with its stream, if it cannot move.
package final class PeerSession: Sendable {
    /// How long an ended session may still write.
    static let closingTime = TimeAmount.seconds(2)

    /// The peer's endpoint id, proved by its key.
    package let peer: EndpointID
    /// Whether this side opened the session.
    package let isOpenedHere: Bool
    let link: SessionLink

    init(peer: EndpointID, isOpenedHere: Bool, link: SessionLink) {
        self.peer = peer
        self.isOpenedHere = isOpenedHere
        self.link = link
    }

    /// Opens a connection to an app service of the peer.
    /// - Parameters:
    ///   - appID: The id of the calling app, which is sent to the peer.
    ///   - timeout: The time until the service has accepted the connection.
    /// - Throws: `AppServiceError`. If its cause is `SessionEnding`, the caller can retry on another session.
    package func open(
        _ info: AppServiceInfo,
        from appID: String = "",
        timeout: Duration
    ) async throws(AppServiceError) -> AppServiceConnection {
        let opening = SessionOpening(
            serviceName: info.name,
            appID: info.appID,
            callerAppID: appID,
            timeLeft: timeout,
            trace: Trace.current
        )
        return try await link.ask { token, continuation in
            .other { handler in handler.open(opening, info, token, timeout: timeout, continuation) }
        }
    }

    /// Stops new connections in both directions. The session ends after the last connection has closed.
    package func drain() { link.enqueue { handler in handler.change { $0.drain(into: &$2) } } }

    /// Checks whether the peer responds, because there is a newer session with it. Without a response the session ends soon.
    package func probe() { link.enqueue { handler in handler.change { $0.probe(at: $1, into: &$2) } } }

    /// Closes all connections, and then the session. Responses that were given are still sent, if the peer receives them within two
    /// seconds. Running services are cancelled. Returns when the channel is closed.
    /// - Parameter reason: What the apps on both sides hear, in words for people; `nil` if the app is suspended or ends.
    package func shutDown(_ reason: String? = nil) async {
        link.enqueue { handler in handler.shutDown(reason ?? "the app is suspended or shutting down") }
        await link.waitUntilClosed()
    }

    /// The event loop of the session and its streams.
    var eventLoop: any EventLoop { link.eventLoop }

    /// How often the session has gone on over another stream.
    var moves: Int { link.streams.value.moves }

    /// Whether the session is on a direct path.
    var isDirect: Bool { link.isDirect }

    /// Whether the session has a stream, or has ended.
    var hasStream: Bool { !link.streams.value.isLost }

    /// Waits as long as the session has no stream.
    /// - Returns: Whether it still has none.
    func waitsForStream(within pause: Duration) async -> Bool {
        await link.streams.first(within: pause) { !$0.isLost || $0.isFinished } == nil && !Task.isCancelled
    }

    /// Leaves the present stream, unless the session goes on over another one since. It waits for another one then, and nothing is lost.
    func leaveStream(unlessMovedSince moves: Int) {
        link.enqueue { [link] handler in
            if link.streams.value.moves == moves { handler.change { $0.streamEnded(at: $1, into: &$2) } }
        }
    }

    /// Waits until the session has no stream, or has ended.
    /// - Returns: Whether it waits for a stream.
    func needsStream() async -> Bool {
        let streams = await link.streams.first { $0.isLost || $0.isFinished }
        return streams.map { !$0.isFinished } ?? false
    }

    /// Waits for the end of the session. `nil` if the task is cancelled before.
    package func ended() async -> SessionEnd? { await link.end.wait() }

    /// Whether the session has ended.
    package var hasEnded: Bool { link.end.value != nil }

    /// The number of objects that the session holds, by kind and without zeros. For tests and diagnosis.
    package func inventory() async -> [String: Int] {
        await withCheckedContinuation { continuation in
            link.enqueue { handler in continuation.resume(returning: handler.inventory) }
        }
    }
}
