// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// Why dialling a relay failed.
package enum DialFailure: Error, Hashable, Sendable {
    /// The host is unknown, there is no network, the port is closed, or the connection ended before the first complete answer.
    case unreachable(String)
    case timedOut
    /// The server could not prove that it is the relay.
    case untrusted(RelayTrustError)
    /// The server, or one in front of it, answered with an HTTP status in place of this protocol. `StatusCause` says what that means.
    case status(Int, retryAfter: Int64?)
    /// The received data is not valid HTTP or TLS.
    case protocolError(String)

    /// The kernel says that there is no way there.
    package static let noRoute = Self.unreachable("this machine has no network, or no route to it")

    /// A relay that stops or restarts during the dial causes this failure.
    package static let hungUp = Self.unreachable("the connection was closed before there was a whole answer")
}

/// Why there is no connection to the relay.
package enum DisconnectReason: Hashable, Sendable {
    case dialFailed(DialFailure)
    /// There is no access token. If the error is transient, the machine retries.
    case noAccessToken(isTransient: Bool)
    /// The relay rejected the hello.
    case rejected(RelayMessage.Rejected)
    /// The relay has invalidated the token.
    case tokenInvalidated(ControlErrorCode)
    /// The server proved to be another relay than the expected one.
    case otherRelay(RelayID)
    /// There is no common protocol version. The value lists the relay's versions.
    case versionUnsupported([Int])
    /// The relay did not send `challenge` or `welcome`, or did not answer a request, in time.
    case timedOut
    /// The relay sent nothing for too long.
    case silent
    /// The relay closed the connection; with its WebSocket code, if it sent one.
    case closed(code: UInt16?)
    /// The relay violated the protocol.
    case malformed(ControlFrameError)
    case restarting
    /// The network changed while the connection was being established.
    case networkChanged
    /// Another host of this endpoint replaced this one.
    case endpointInUse
    case suspended
}

/// The answer to a request. Each request gets exactly one.
package enum ControlAnswer: Hashable, Sendable {
    case ok(RelayMessage.OK.Result?)
    case settled(RelayMessage.CommandSettled)
    case failure(RelayMessage.Failure)
    /// The connection ended before the answer. The relay may have processed the request.
    case connectionLost
}

/// Why a message was not sent.
package enum ControlSendError: Error, Hashable, Sendable {
    case notConnected
    /// Too many requests wait for answers, or too many bytes wait for the network. Retry after `roomAgain`.
    case busy
    case tooLarge(LimitExceeded)
    case malformed
}

extension EndpointChannelStateMachine {
    /// An action that the owner performs. `attempt` identifies the connection. Events of other connections are ignored.
    package enum Action: Hashable, Sendable {
        /// Ask the provider for an access token, then call `tokenReady` or `tokenFailed`.
        case requestToken(attempt: Int)
        /// Tell the provider not to return this token again.
        case invalidateToken
        /// Connect to this URL of the relay, or to the configured URL if it is `nil`. Then call `opened` or `dialFailed`.
        case dial(attempt: Int, url: String?)
        /// Store the offset of the relay's clock, create the hello for this challenge with this token, and call `helloReady`.
        case makeHello(attempt: Int, RelayMessage.Challenge, token: Secret<String>)
        case send(attempt: Int, ByteBuffer)
        /// Send a WebSocket ping.
        case ping(attempt: Int)
        /// Close the connection, or cancel the dial.
        case close(attempt: Int, code: UInt16, reason: String)
        /// The relay has sent `welcome`.
        case connected(RelayMessage.Welcome)
        /// The connection ended, or an attempt failed. `status` states what follows.
        case disconnected(DisconnectReason)
        case answer(RequestRef, ControlAnswer)
        case event(RelayMessage)
        /// Messages that failed with `busy` can be sent now.
        case roomAgain
    }

    /// The status of the connection, for display.
    package enum Status: Hashable, Sendable {
        /// No attempt is made until `start`. The reason is `nil` before the first `start`.
        case stopped(DisconnectReason?)
        case connecting
        case connected
        case waiting(until: Int64)
    }
}
