// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// The state of one app service connection within a session.
///
/// opening → open (ours) · offered → open (the peer's) · open → closing → gone · offered → abandoned → gone
struct SessionConnection: Sendable {
    enum Phase: Hashable {
        /// This side has sent `open` and waits for the answer.
        case opening
        /// The peer has sent `open` and the app has not answered.
        case offered
        case open
        /// The app has closed it. `close` is sent once the last responses have left, or at the given time.
        case closing(SessionClosure, until: Duration)
        /// The peer closed it before the app answered. It counts against the connection limit until the app answers, so that a
        /// peer cannot open and close connections faster than the app handles them.
        case abandoned
    }

    var phase: Phase
    /// Bytes that may still be sent before the peer returns credit.
    private(set) var sendWindow = SessionWire.windowBytes
    /// Bytes that the peer has sent and the app has not taken.
    private(set) var unconsumed = 0
    /// Bytes that the app has taken and whose credit is not yet returned.
    private(set) var creditDue = 0
    /// Frames that do not fit into the window, in order.
    var line = RemovableQueue<QueuedFrame>()
    /// Unfinished requests of this side, and of the peer.
    var outgoing: [UInt32: Exchange] = [:]
    var incoming: [UInt32: Exchange] = [:]
    /// The latest request numbers of both sides. A number that is not later and not in the table belongs to a finished request.
    private(set) var lastOutgoing: UInt32 = 0
    private(set) var lastTheirs: UInt32 = 0

    struct QueuedFrame {
        let frame: SessionFrame
        /// The body that the frame announces.
        let body: ByteBuffer?
        let isOutgoing: Bool
    }

    /// The state of a request.
    enum Exchange {
        /// An outgoing message, the request or the response, is being sent.
        case sending(Outgoing)
        /// The responder has to answer: the peer for requests of this side, the app for the peer's requests.
        case awaitingResponse
        /// An incoming message was announced and is being received.
        case receiving(Incoming, windowBytes: Int, timeLeft: Duration?)
        /// The peer's request was too large, and the error frame waits for the window. The app does not see this request.
        case rejecting(RemovableQueue<QueuedFrame>.Ticket)
    }

    enum Outgoing {
        /// Its first frame waits for the window.
        case queued(RemovableQueue<QueuedFrame>.Ticket)
        /// It was announced and waits for the grant.
        case announced(ByteBuffer)
        /// It was granted and is being sent in slices, round-robin with other bodies.
        case granted(ByteBuffer, RemovableQueue<BodyKey>.Ticket)
    }

    enum Incoming {
        case announced(Int, RemovableQueue<Announcement>.Ticket)
        case assembling(ByteBuffer, length: Int)
    }

    /// An announced body that waits for a grant.
    struct Announcement {
        let body: BodyKey
        let length: Int
    }

    /// Identifies a body within a session.
    struct BodyKey: Hashable {
        let request: SessionRequestID
        /// Whether this side sent the request.
        let isOutgoing: Bool
    }

    init(phase: Phase) { self.phase = phase }

    /// The state of a request; `nil` if it is finished or was never sent.
    subscript(number: UInt32, isOutgoing isOutgoing: Bool) -> Exchange? {
        get { isOutgoing ? outgoing[number] : incoming[number] }
        set { if isOutgoing { outgoing[number] = newValue } else { incoming[number] = newValue } }
    }

    // MARK: Windows

    /// Takes the frame's size from the window.
    /// - Returns: Whether the frame fits into the window.
    mutating func charge(_ frame: SessionFrame) -> Bool {
        guard frame.size <= sendWindow else { return false }
        sendWindow -= frame.size
        return true
    }

    mutating func credited(_ credit: UInt32) throws(SessionError) {
        guard Int(credit) <= SessionWire.windowBytes - sendWindow else { throw .windowOverflow }
        sendWindow += Int(credit)
    }

    mutating func received(_ frame: SessionFrame) throws(SessionError) {
        guard frame.size <= SessionWire.windowBytes - unconsumed - creditDue else { throw .windowExceeded }
        unconsumed += frame.size
    }

    /// The credit to return to the peer now, if any.
    mutating func consumed(_ bytes: Int) -> UInt32? {
        let bytes = min(bytes, unconsumed)
        unconsumed -= bytes
        creditDue += bytes
        guard creditDue >= SessionWire.creditStep else { return nil }
        defer { creditDue = 0 }
        return UInt32(creditDue)
    }

    // MARK: Request numbers

    // Numbers wrap around after 2^32 and are compared with serial number arithmetic (RFC 1982). 0 is not a valid number.

    /// The number of the next request of this side.
    mutating func nextNumber() -> UInt32 {
        repeat { lastOutgoing &+= 1 } while lastOutgoing == 0 || outgoing[lastOutgoing] != nil
        return lastOutgoing
    }

    mutating func receivedNumber(_ number: UInt32) throws(SessionError) {
        let step = number &- lastTheirs
        guard step != 0, step < 1 << 31, incoming[number] == nil else { throw .invalidRequest }
        lastTheirs = number
    }

    /// Throws unless the number was used before. A used number that is not in the table belongs to a finished request.
    func checkUsed(_ number: UInt32, isOutgoing: Bool) throws(SessionError) {
        let last = isOutgoing ? lastOutgoing : lastTheirs
        guard last &- number < 1 << 31 else { throw .invalidRequest }
    }
}
