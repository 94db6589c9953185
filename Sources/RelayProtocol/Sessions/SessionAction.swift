// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// The actions of a `SessionStateMachine`. Its owner performs them in order.
package enum SessionAction: Equatable, Sendable {
    /// Write the frame to the stream.
    case send(SessionFrame)

    /// The stream has ended, or is silent. Close it. The session waits for another one.
    case streamLost

    /// The peer requests a connection. Answer with `accept` or `refuse`, even if it was closed in the meantime.
    indirect case openReceived(SessionConnectionID, SessionOpening)
    /// The requested connection is open.
    case openSucceeded(SessionConnectionID)
    /// The requested connection failed to open. No further action has this id.
    indirect case openFailed(SessionConnectionID, SessionOpenFailure)
    /// The peer closed the connection, or the session ended. The actions that end its requests precede this one. Drop
    /// messages that the app has not taken, and report them as consumed.
    indirect case connectionClosed(SessionConnectionID, SessionConnectionEnd)

    /// A request of the peer. Answer with `respond` or `failRequest`, and call `consumed` once the app has taken the message.
    case requestReceived(SessionRequestID, message: ByteBuffer, timeLeft: Duration?, MessageCredit)
    /// The peer has cancelled its request.
    case requestCancelled(SessionRequestID)
    /// A response that was waiting has been sent, or will never be sent.
    case responseFinished(SessionRequestID, wasSent: Bool)

    /// The response to a request of this side. Call `consumed` once the app has taken the message. It ends the request.
    case responseReceived(SessionRequestID, message: ByteBuffer, MessageCredit)
    /// A request of this side failed. It ends the request.
    indirect case requestFailed(SessionRequestID, SessionRequestFailure)

    /// Reserve this many bytes of the endpoint's assembly budget for this kind, and call `reserved` when they are available.
    case reserve(Int, for: SessionFrame.MessageKind)
    /// Release this many bytes of the budget.
    case release(Int, for: SessionFrame.MessageKind)

    /// The session has ended. Flush pending writes, then close the stream.
    indirect case ended(SessionEnd)
}

/// The window and budget that a received message occupies until the app takes it.
package struct MessageCredit: Hashable, Sendable {
    let connection: SessionConnectionID
    let kind: SessionFrame.MessageKind
    let windowBytes: Int
    package let assemblyBytes: Int

    /// The part of a window that it occupies, if it is a request.
    package var pendingBytes: Int { kind == .request && assemblyBytes == 0 ? windowBytes : 0 }
}

/// Why a connection was not opened.
package enum SessionOpenFailure: Hashable, Sendable {
    /// The peer refused it.
    case refused(SessionRejection)
    /// It was closed locally before it was open.
    case cancelled
    /// The session ended.
    case sessionEnded(SessionEnd)
}

/// Why a request has no response.
package enum SessionRequestFailure: Hashable, Sendable {
    /// The peer answered with an error.
    case failed(SessionFailure)
    /// It was cancelled locally.
    case cancelled
    /// The response exceeds the message limit.
    case responseTooLarge(LimitExceeded)
    /// The connection was closed, by either side.
    case connectionClosed(SessionClosure)
    /// The session ended.
    case sessionEnded(SessionEnd)
}

/// How an open connection ended.
package enum SessionConnectionEnd: Hashable, Sendable {
    /// The peer closed it.
    case closed(SessionClosure)
    /// The session ended.
    case sessionEnded(SessionEnd)
}

/// How a session ended.
package enum SessionEnd: Hashable, Sendable {
    /// One side was draining, and the last connection has closed.
    case drained
    /// The session had no connection for a minute.
    case idle
    /// The byte stream closed or failed.
    case connectionLost
    /// The peer did not answer, or broke a protocol rule.
    case failed(SessionError)
    /// The peer ended the session. Its code is a `SessionError` or a newer code.
    case failedByPeer(SessionGoAway)
}

/// Why a frame was not sent.
package enum SessionSendError: Error, Hashable, Sendable {
    /// A limit of this side or of the peer.
    case limitExceeded(LimitExceeded)
    /// The names in `open` exceed the metadata limit.
    case metadataTooLong
    /// The session is draining or has ended. A new session is possible.
    case sessionEnding
    /// The connection is not open.
    case notOpen
}

/// The state of a response that the app has handed in.
package enum SessionResponseProgress: Hashable, Sendable {
    /// It was sent.
    case sent
    /// It waits for the peer; `responseFinished` follows.
    case waiting
    /// It was dropped: the request was cancelled or answered, or its connection was closed.
    case dropped
}
