// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// Why a relay could not be dialled.
package enum DialFailure: Error, Hashable, Sendable {
    /// No such host, no network, nobody listens, or whoever did has gone before it had answered.
    case unreachable(String)
    case timedOut
    /// Whoever answered could not prove to be the relay.
    case untrusted(RelayTrustError)
    /// Whoever answered speaks HTTP, but not this protocol.
    case notARelay(status: Int, retryAfter: Int64?)
    /// What was said is no HTTP or no TLS.
    case protocolError(String)

    /// A relay that dies or restarts does this to those who dial it just then.
    package static let hungUp = Self.unreachable("the connection was closed before there was a whole answer")
}

/// Why there is no connection to the relay.
package enum DisconnectReason: Hashable, Sendable {
    case dialFailed(DialFailure)
    /// No token; whether it will be tried again by itself.
    case noAccessToken(isTransient: Bool)
    /// The relay did not let the endpoint in.
    case rejected(RelayMessage.Rejected)
    /// The relay does not count the token any more.
    case tokenInvalidated(ControlErrorCode)
    /// It proved to be another relay than the one that is meant.
    case otherRelay(RelayID)
    /// No version in common; the relay's.
    case versionUnsupported([Int])
    /// The relay did not say hello or welcome, or did not answer a request, in time.
    case timedOut
    /// Nothing was heard for too long.
    case silent
    /// The relay closed; with its WebSocket code, if it said one.
    case closed(code: UInt16?)
    /// The relay broke the protocol.
    case malformed(ControlFrameError)
    case restarting
    /// The network changed while the connection was being made.
    case networkChanged
    /// Another host of this endpoint took over.
    case endpointInUse
    case suspended
}

/// The answer to a request. Each gets exactly one.
package enum ControlAnswer: Hashable, Sendable {
    case ok(RelayMessage.OK.Result?)
    case settled(RelayMessage.CommandSettled)
    case failure(RelayMessage.Failure)
    /// The connection ended first. The relay may have served it.
    case connectionLost
}

/// Why something is not sent. It has not left.
package enum ControlSendError: Error, Hashable, Sendable {
    case notConnected
    /// Too many requests wait for answers, or too many bytes for the network. Again after `roomAgain`.
    case busy
    case tooLarge(LimitExceeded)
    case malformed
}

extension EndpointChannelStateMachine {
    /// What the owner has to do. An `attempt` names the connection that it is about; what comes from another is ignored.
    package enum Action: Hashable, Sendable {
        /// Ask the provider for an access token, then call `tokenReady` or `tokenFailed`.
        case requestToken(attempt: Int)
        /// Tell the provider that the token is not to be given out again.
        case invalidateToken
        /// Connect to the URL, one of the relay's, or to the configured one if it is `nil`; then call `opened` or `dialFailed`.
        case dial(attempt: Int, url: String?)
        /// Keep the clock's offset, make the hello for this challenge with this token, and call `helloReady`.
        case makeHello(attempt: Int, RelayMessage.Challenge, token: Secret<String>)
        case send(attempt: Int, ByteBuffer)
        /// Send a WebSocket ping.
        case ping(attempt: Int)
        /// Close the connection, or give up making it.
        case close(attempt: Int, code: UInt16, reason: String)
        /// The relay said `welcome`.
        case connected(RelayMessage.Welcome)
        /// There is no connection any more, or still none. What is after it is in `status`.
        case disconnected(DisconnectReason)
        case answer(RequestRef, ControlAnswer)
        case event(RelayMessage)
        /// What was `busy` can be sent now.
        case roomAgain
    }

    /// How things stand, for people.
    package enum Status: Hashable, Sendable {
        /// Nothing happens until `start`. The reason is `nil` before the first.
        case stopped(DisconnectReason?)
        case connecting
        case connected
        case waiting(until: Int64)
    }
}
