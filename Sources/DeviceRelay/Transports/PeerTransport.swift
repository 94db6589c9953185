// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// A way to a peer: gives a byte stream, over which the endpoints speak TLS.
package protocol PeerTransport: Sendable {
    /// Connects.
    /// - Parameters:
    ///   - timeout: Until the stream is there.
    ///   - install: Adds the handlers for the stream to its channel's pipeline. Called once, on the channel's event loop, before the peer's
    ///     first byte goes there; not called for attempts that come too late.
    /// - Returns: The channel of the stream.
    func connect(
        timeout: Duration,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) async throws(PeerTransportError) -> any Channel
}

/// Why there is no stream to a peer.
package enum PeerTransportError: Error, Hashable, Sendable {
    /// Every way that could be tried failed; why the one that got furthest did.
    case unreachable(DialFailure)
    /// The relay did not put the two sides together.
    case refused(TunnelStatus)
    /// The relay closed the way before it had put them together.
    case closed
    /// None of the addresses can be used.
    case noCandidate
    /// None of the addresses is at a host of the relay.
    case foreignHost
    case timedOut
    case cancelled
}

extension AppServiceError {
    init(transport error: PeerTransportError) {
        switch error {
        case .unreachable(.untrusted):
            self.init(.authenticationError, message: "the server at the relay's address did not prove to be the relay", cause: error)
        case .refused(.timedOut): self.init(.timedOut, message: "the device did not connect in time; try again", cause: error)
        case .unreachable(.notARelay), .refused, .closed:
            self.init(.remoteSystemUnavailable, message: "the relay has no tunnel to the device any more; try again", cause: error)
        case .unreachable:
            self.init(.networkNotAvailable, message: "the relay's tunnel cannot be reached; check the connection", cause: error)
        case .noCandidate:
            self.init(.notSupported, message: "the relay offers no tunnel that this version supports; update the app", cause: error)
        case .foreignHost:
            self.init(
                .authenticationError,
                message: "the relay names only tunnels on hosts that are not its own; its operator has to add these hosts to its URLs",
                cause: error
            )
        case .timedOut: self.init(.timedOut, message: "the device did not connect in time; try again", cause: error)
        case .cancelled: self.init(.cancelled)
        }
    }
}
