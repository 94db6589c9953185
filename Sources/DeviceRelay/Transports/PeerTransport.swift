// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// A transport to a peer: a byte stream, over which the endpoints use TLS.
package protocol PeerTransport: Sendable {
    /// Connects.
    /// - Parameters:
    ///   - timeout: The time limit until the stream is established.
    ///   - install: Adds the handlers of the stream to its channel's pipeline. It is called once, on the channel's event loop, before the
    ///     peer's first byte is delivered. It is not called for attempts that complete too late.
    /// - Returns: The channel of the stream.
    func connect(
        timeout: Duration,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) async throws(PeerTransportError) -> any Channel
}

/// Why no stream to a peer was established.
package enum PeerTransportError: Error, Hashable, Sendable {
    /// All candidates failed. The value is the failure of the candidate that got furthest.
    case unreachable(DialFailure)
    /// The relay did not pair the two sides.
    case refused(TunnelStatus)
    /// The relay closed the connection before it paired the two sides.
    case closed
    /// No direct connection to the peer was established.
    case notReached
    /// What was reached directly closed the connection before it was used.
    case closedEarly
    /// What was reached directly does not speak this protocol.
    case notProved
    /// No candidate is supported.
    case noCandidate
    /// No candidate is on a host of the relay.
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
        case .unreachable(.status(let status, _)) where StatusCause(status) != .notARelay:
            self.init(.networkNotAvailable, message: StatusCause.message(status), cause: error)
        case .unreachable(.status), .refused, .closed:
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
        case .notReached:
            self.init(.remoteSystemUnavailable, message: "the device cannot be reached on the local network", cause: error)
        case .closedEarly:
            self.init(
                .remoteSystemUnavailable,
                message: "the device accepts no connection on the local network now; try again",
                cause: error
            )
        case .notProved:
            self.init(.remoteSystemUnavailable, message: "what answers at the device's address is not that device", cause: error)
        case .timedOut: self.init(.timedOut, message: "the device did not connect in time; try again", cause: error)
        case .cancelled: self.init(.cancelled)
        }
    }
}
