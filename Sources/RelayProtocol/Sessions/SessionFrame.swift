// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// Identifies a connection within its session. The TLS client uses odd ids, the server even ids; 0 is the session itself.
package struct SessionConnectionID: Hashable, Comparable, Sendable {
    package let rawValue: UInt32

    package init(_ rawValue: UInt32) { self.rawValue = rawValue }

    /// The session as a whole.
    package static let session = Self(0)

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// Identifies a request within its session. Each side numbers its own requests, so the context decides which side's request is meant.
package struct SessionRequestID: Hashable, Sendable {
    package let connection: SessionConnectionID
    package let number: UInt32

    package init(connection: SessionConnectionID, number: UInt32) {
        self.connection = connection
        self.number = number
    }

    /// Hashes both numbers as one word, because each message looks the id up several times.
    package func hash(into hasher: inout Hasher) { hasher.combine(UInt64(connection.rawValue) << 32 | UInt64(number)) }
}

/// One frame of a session.
package struct SessionFrame: Equatable, Sendable {
    /// The connection; 0 in frames about the session.
    package let connection: SessionConnectionID
    /// The request; 0 in frames about the connection or the session.
    package let number: UInt32
    /// The type and content of the frame.
    package let payload: Payload
    /// The size on the wire with the header, which is charged to the window.
    package let size: Int

    package init(_ payload: Payload, connection: SessionConnectionID = .session, number: UInt32 = 0) {
        self.init(payload, connection: connection, number: number, size: SessionWire.headerBytes + payload.encodedSize)
    }

    init(_ payload: Payload, _ request: SessionRequestID) {
        self.init(payload, connection: request.connection, number: request.number)
    }

    init(_ payload: Payload, connection: SessionConnectionID, number: UInt32, size: Int) {
        self.payload = payload
        self.connection = connection
        self.number = number
        self.size = size
    }

    /// Rare payloads are `indirect`, to keep the common frames small.
    package enum Payload: Equatable, Sendable {
        /// The first frame of each side.
        indirect case settings(SessionSettings)
        /// Requests a connection.
        indirect case open(SessionOpening)
        /// The connection is open.
        case opened
        /// The connection is refused.
        indirect case refused(SessionRejection)
        /// A request message, with the time that is left for the answer.
        case request(Message, timeLeft: Duration?)
        /// The response to a request of the receiver.
        case response(Message)
        /// A request of the receiver failed.
        indirect case error(SessionFailure)
        /// Bytes of a granted body.
        case data(ByteBuffer, of: MessageKind, isLast: Bool)
        /// Permits the sender to send the whole announced body.
        case grant(MessageKind)
        /// The sender cancels its request.
        case cancel
        /// Returns credit for a connection.
        case window(UInt32)
        /// Asks for a `pong` with the same value.
        case ping(UInt64)
        /// The answer to a `ping`.
        case pong(UInt64)
        /// Closes a connection, or cancels the sender's `open` that is not answered.
        indirect case close(SessionClosure)
        /// The session accepts no new connections, or has ended.
        indirect case goaway(SessionGoAway)
        /// The number of the receiver's frames that the sender has handled.
        case ack(UInt64)
        /// The same, as the answer to a move: the session goes on over this stream.
        case moved(UInt64)
    }

    /// A message as its first frame carries it.
    package enum Message: Equatable, Sendable {
        /// The whole message.
        case inline(ByteBuffer)
        /// The length of the message. The bytes follow as `data` after a grant.
        case announced(Int)

        var length: Int {
            switch self {
            case .inline(let bytes): bytes.readableBytes
            case .announced(let length): length
            }
        }
    }

    /// Selects a request's message or its response.
    package enum MessageKind: Hashable, Sendable {
        case request
        case response
    }
}

/// The last frame of a side.
package struct SessionGoAway: Hashable, Sendable {
    /// The highest connection id of the receiver that is still served.
    package let lastConnection: SessionConnectionID
    /// 0 if open connections may finish; otherwise a `SessionError`, and the session has ended.
    package let code: UInt16
    package let message: String

    package init(lastConnection: SessionConnectionID, code: UInt16 = 0, message: String = "") {
        self.lastConnection = lastConnection
        self.code = code
        self.message = message.cut(toUTF8: SessionWire.textBytes)
    }

    package init(_ error: SessionError, lastConnection: SessionConnectionID = .session) {
        self.init(lastConnection: lastConnection, code: error.rawValue, message: "\(error)")
    }

    /// Whether open connections may finish.
    package var isGraceful: Bool { code == 0 }
}
