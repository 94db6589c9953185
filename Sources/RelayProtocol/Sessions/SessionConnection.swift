// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// The state of one app service connection within a session.
///
/// opening → open (ours) · offered → open (the peer's) · open → closing → gone · offered → abandoned → gone
struct SessionConnection: Sendable {
    enum Phase: Hashable {
        /// We asked and wait for the answer.
        case opening
        /// The peer asked and the app has not answered.
        case offered
        case open
        /// The app has closed it; the peer is told once the last responses have left, or at the given time.
        case closing(SessionClosure, until: Duration)
        /// The peer closed it before the app answered. It counts until the app does, so that a peer that opens and closes
        /// cannot outrun the app.
        case abandoned
    }

    var phase: Phase
    /// What may still be sent before the peer returns credit.
    private(set) var sendWindow = SessionWire.windowBytes
    /// What the peer has sent and the app has not taken.
    private(set) var unconsumed = 0
    /// Taken, and not yet returned to the peer.
    private(set) var creditDue = 0
    /// Frames that do not fit into the window, in order.
    var line = WaitingLine<QueuedFrame>()
    /// Requests of ours, and of the peer, that are not finished.
    var ours: [UInt32: Exchange] = [:]
    var theirs: [UInt32: Exchange] = [:]
    /// The highest request numbers so far, from both sides; older ones that are not above are finished.
    private(set) var lastOurs: UInt32 = 0
    private(set) var lastTheirs: UInt32 = 0

    struct QueuedFrame {
        let frame: SessionFrame
        /// The body that the frame announces.
        let body: ByteBuffer?
        let isOurs: Bool
    }

    /// Where a request is.
    enum Exchange {
        /// Our message, the request or the response, is on its way.
        case sending(Outgoing)
        /// The next step is the responder's: the peer's for our requests, the app's for the peer's.
        case awaitingResponse
        /// The peer's message was announced and is on its way.
        case receiving(Incoming, windowBytes: Int, timeLeft: Duration?)
        /// The request of the peer was too large, and the error waits for the window. The app knows nothing of it.
        case rejecting(WaitingLine<QueuedFrame>.Ticket)
    }

    enum Outgoing {
        /// Its first frame waits for the window.
        case queued(WaitingLine<QueuedFrame>.Ticket)
        /// It was announced and waits for the grant.
        case announced(ByteBuffer)
        /// It takes its turns with others.
        case granted(ByteBuffer, WaitingLine<BodyKey>.Ticket)
    }

    enum Incoming {
        case announced(Int, WaitingLine<Announcement>.Ticket)
        case assembling(ByteBuffer, length: Int)
    }

    /// A body that wants a grant.
    struct Announcement {
        let body: BodyKey
        let length: Int
    }

    /// Names a body among all of a session.
    struct BodyKey: Hashable {
        let request: SessionRequestID
        /// Whose request it belongs to.
        let isOurs: Bool
    }

    init(phase: Phase) { self.phase = phase }

    /// The step of a request; `nil` when it is finished or never began.
    subscript(number: UInt32, isOurs isOurs: Bool) -> Exchange? {
        get { isOurs ? ours[number] : theirs[number] }
        set { if isOurs { ours[number] = newValue } else { theirs[number] = newValue } }
    }

    // MARK: Windows

    /// Whether the frame may go now; then it counts.
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

    /// What is to be returned to the peer now, if anything.
    mutating func consumed(_ bytes: Int) -> UInt32? {
        let bytes = min(bytes, unconsumed)
        unconsumed -= bytes
        creditDue += bytes
        guard creditDue >= SessionWire.creditStep else { return nil }
        defer { creditDue = 0 }
        return UInt32(creditDue)
    }

    // MARK: Request numbers

    // Numbers go round after 2^32, and are compared as RFC 1982 does it. 0 is no number.

    /// A number for a new request of ours.
    mutating func nextNumber() -> UInt32 {
        repeat { lastOurs &+= 1 } while lastOurs == 0 || ours[lastOurs] != nil
        return lastOurs
    }

    mutating func receivedNumber(_ number: UInt32) throws(SessionError) {
        let step = number &- lastTheirs
        guard step != 0, step < 1 << 31, theirs[number] == nil else { throw .invalidRequest }
        lastTheirs = number
    }

    /// Passes if the number was used; then a request that is not there is finished.
    func checkUsed(_ number: UInt32, isOurs: Bool) throws(SessionError) {
        let last = isOurs ? lastOurs : lastTheirs
        guard last &- number < 1 << 31 else { throw .invalidRequest }
    }
}
