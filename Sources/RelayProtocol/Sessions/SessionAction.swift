// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// What the owner of a `SessionStateMachine` has to do, in this order.
package enum SessionAction: Equatable, Sendable {
    /// Put the frame on the wire.
    case send(SessionFrame)

    /// The peer asks for a connection: answer with `accept` or `refuse`, even if it was closed meanwhile.
    indirect case openReceived(SessionConnectionID, SessionOpening)
    /// The connection that was asked for is there.
    case openSucceeded(SessionConnectionID)
    /// It is not. The last word about this id.
    indirect case openFailed(SessionConnectionID, SessionOpenFailure)
    /// The peer closed the connection, or the session is over. Its requests got their last words before this. Messages
    /// that the app has not taken are worth nothing now: drop them, and say that they were consumed.
    indirect case connectionClosed(SessionConnectionID, SessionConnectionEnd)

    /// A request of the peer, to be answered with `respond` or `fail`; `consumed` once the app has taken the message.
    case requestReceived(SessionRequestID, message: ByteBuffer, timeLeft: Duration?, SessionReceipt)
    /// The peer no longer wants an answer to it.
    case requestCancelled(SessionRequestID)
    /// The response that had to wait has left, or never will.
    case responseFinished(SessionRequestID, wasSent: Bool)

    /// The answer to a request of ours; `consumed` once the app has taken the message. The request's last word.
    case responseReceived(SessionRequestID, message: ByteBuffer, SessionReceipt)
    /// There is no answer to a request of ours. The request's last word.
    indirect case requestFailed(SessionRequestID, SessionRequestFailure)

    /// Take so many bytes from the endpoint's assembly budget for this kind and call `reserved` when they are there.
    case reserve(Int, for: SessionFrame.MessageKind)
    /// Give them back.
    case release(Int, for: SessionFrame.MessageKind)

    /// The session is over: write what was to be sent, and close.
    indirect case ended(SessionEnd)
}

/// What a received message occupies until the app has taken it.
package struct SessionReceipt: Hashable, Sendable {
    let connection: SessionConnectionID
    let kind: SessionFrame.MessageKind
    let windowBytes: Int
    package let assemblyBytes: Int

    /// What it occupies of a window, if it is a request.
    package var pendingBytes: Int { kind == .request && assemblyBytes == 0 ? windowBytes : 0 }
}

/// Why a connection was not opened.
package enum SessionOpenFailure: Hashable, Sendable {
    /// The peer said so.
    case refused(SessionRefusal)
    /// It was closed from here before it was open.
    case cancelled
    /// The session ended.
    case sessionEnded(SessionEnd)
}

/// Why a request has no response.
package enum SessionRequestFailure: Hashable, Sendable {
    /// The peer said so.
    case failed(SessionFailure)
    /// It was cancelled here.
    case cancelled
    /// The response is longer than a message may be.
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
    /// One side was to take no new connections, and the last has gone.
    case drained
    /// No connection for a minute.
    case idle
    /// The byte stream broke off.
    case connectionLost
    /// The peer does not answer, or broke a rule.
    case failed(SessionError)
    /// The peer gave us up; its code is a `SessionError`'s or newer.
    case failedByPeer(SessionGoAway)
}

/// Why something was not sent.
package enum SessionSendError: Error, Hashable, Sendable {
    /// A limit of this side or the peer.
    case limitExceeded(LimitExceeded)
    /// The names in `open` are too long.
    case metadataTooLong
    /// The session takes no new connections, or is over; another session may.
    case sessionEnding
    /// The connection is not open.
    case notOpen
}

/// What became of a response that was handed in.
package enum SessionResponseProgress: Hashable, Sendable {
    /// It has left.
    case sent
    /// It waits for the peer; `responseFinished` follows.
    case waiting
    /// Nobody wants it: the request was cancelled, answered, or its connection closed.
    case dropped
}
