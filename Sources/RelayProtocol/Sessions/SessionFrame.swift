// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// Names a connection within its session. The TLS client's ids are odd, the server's even; 0 is the session itself.
package struct SessionConnectionID: Hashable, Comparable, Sendable {
    package let rawValue: UInt32

    package init(_ rawValue: UInt32) { self.rawValue = rawValue }

    /// Stands for the session as a whole.
    package static let session = Self(0)

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// Names a request within its session. The number belongs to the side that asked, so each number exists once per side:
/// which one is meant follows from where the id is used.
package struct SessionRequestID: Hashable, Sendable {
    package let connection: SessionConnectionID
    package let number: UInt32

    package init(connection: SessionConnectionID, number: UInt32) {
        self.connection = connection
        self.number = number
    }

    /// Both numbers as one: it is looked up several times for each message.
    package func hash(into hasher: inout Hasher) { hasher.combine(UInt64(connection.rawValue) << 32 | UInt64(number)) }
}

/// One frame of a session.
package struct SessionFrame: Equatable, Sendable {
    /// The connection; 0 in frames about the session.
    package let connection: SessionConnectionID
    /// The request; 0 in frames about the connection or the session.
    package let number: UInt32
    /// What the frame says.
    package let payload: Payload
    /// The bytes on the wire, header included: what a window is charged.
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

    /// Rare payloads are boxed, which keeps the frames of a call small.
    package enum Payload: Equatable, Sendable {
        /// The first frame of each side.
        indirect case settings(SessionSettings)
        /// Asks for a connection.
        indirect case open(SessionOpening)
        /// The connection is there.
        case opened
        /// It is not.
        indirect case refused(SessionRefusal)
        /// A message that wants an answer, within the time that the caller has left.
        case request(Message, timeLeft: Duration?)
        /// The answer to a request of the receiver.
        case response(Message)
        /// A request of the receiver failed.
        indirect case error(SessionFailure)
        /// Bytes of a granted body.
        case data(ByteBuffer, of: MessageKind, isLast: Bool)
        /// The announced body may come, all of it.
        case grant(MessageKind)
        /// A request of the sender is no longer wanted.
        case cancel
        /// Credit for a connection.
        case window(UInt32)
        /// Is anybody there?
        case ping(UInt64)
        /// Yes.
        case pong(UInt64)
        /// The connection is over; in place of an answer to one's own `open`, it is no longer wanted.
        indirect case close(SessionClosure)
        /// The session takes no new connections, or is over.
        indirect case goaway(SessionGoAway)
    }

    /// A message as its first frame has it.
    package enum Message: Equatable, Sendable {
        /// All of it.
        case inline(ByteBuffer)
        /// Its length; the bytes come as `data` once they are granted.
        case announced(Int)

        var length: Int {
            switch self {
            case .inline(let bytes): bytes.readableBytes
            case .announced(let length): length
            }
        }
    }

    /// Which message of a request is meant.
    package enum MessageKind: Hashable, Sendable {
        case request
        case response
    }
}

/// The last frame of a side.
package struct SessionGoAway: Hashable, Sendable {
    /// The highest connection id of the receiver that is still served.
    package let lastConnection: SessionConnectionID
    /// 0 when open connections may finish, else a `SessionError`, and all is over.
    package let code: UInt16
    package let message: String

    package init(lastConnection: SessionConnectionID, code: UInt16 = 0, message: String = "") {
        self.lastConnection = lastConnection
        self.code = code
        self.message = message.cut(toUTF8: SessionWire.textBytes)
    }

    /// Whether open connections may finish.
    package var isGraceful: Bool { code == 0 }
}
