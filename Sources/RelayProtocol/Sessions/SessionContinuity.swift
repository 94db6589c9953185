// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// What makes a session go on over another stream (feature `move`): the counts of its frames, and the frames that the peer has not
/// acknowledged.
///
/// running → asking (the opener, on a new stream) → running · running → lost → asking → running · lost → the session ends
struct SessionContinuity: Sendable {
    private enum Agreement {
        /// One side lacks the feature. Nothing is counted.
        case none
        /// The peer's settings have not arrived. Frames may have left before.
        case offered
        case agreed
    }

    private var agreement: Agreement
    /// Until when a session without a stream waits for another one.
    private(set) var waitsUntil: Duration?
    /// Whether this side has named its count on a new stream and waits for the answer. Until then it reads no older stream.
    private(set) var isAsking = false
    /// The number of the latest move.
    private var lastMove: UInt64 = 0

    /// The frames of the peer that were handled, and how many of them the peer knows of.
    private(set) var received: UInt64 = 0
    private var reported: UInt64 = 0
    private var unreportedBytes = 0
    /// When the peer is told at the latest.
    private(set) var reportDeadline: Duration?

    /// The frames after the first `acknowledged` ones, in order. The first `written` of them are on the present stream.
    private var kept = CircularBuffer<SessionFrame>()
    private var acknowledged: UInt64 = 0
    private var written = 0
    private var writtenBytes = 0
    /// The number of frames that were ever written.
    private var everWritten: UInt64 = 0

    init(isOffered: Bool) { agreement = isOffered ? .offered : .none }

    /// Both sides have the feature.
    mutating func agree() { agreement = .agreed }

    /// One side lacks the feature.
    /// - Returns: The frames that have waited.
    mutating func decline() -> [SessionFrame] {
        defer { self = SessionContinuity(isOffered: false) }
        return Array(kept.dropFirst(written))
    }

    var isAgreed: Bool { agreement == .agreed }
    var hasStream: Bool { waitsUntil == nil }
    /// Whether frames of the present stream may be handled.
    var reads: Bool { hasStream && !isAsking }
    /// Whether a frame would be written now. Otherwise it would wait, for acknowledgements or for a stream.
    var writes: Bool { hasStream && writtenBytes < SessionWire.keptBytes }
    /// Whether frames wait.
    var holds: Bool { written < kept.count }

    // MARK: Sent frames

    /// Takes a frame of this side.
    /// - Returns: Whether it is to be written now.
    mutating func take(_ frame: SessionFrame) -> Bool {
        guard agreement != .none else { return true }
        guard frame.payload.isCounted else { return hasStream }
        let isNext = !holds && writes
        kept.append(frame)
        if isNext { frameIsWritten(frame) }
        return isNext
    }

    /// The next frame that has waited, if it is to be written now.
    mutating func nextHeld() -> SessionFrame? {
        guard holds, writes else { return nil }
        let frame = kept[offset: written]
        frameIsWritten(frame)
        return frame
    }

    private mutating func frameIsWritten(_ frame: SessionFrame) {
        written += 1
        writtenBytes += frame.keptBytes
        everWritten = max(everWritten, acknowledged + UInt64(written))
    }

    /// Forgets the frames that the peer has received.
    mutating func acknowledge(_ count: UInt64) throws(SessionError) {
        guard count >= acknowledged, count <= everWritten else { throw .invalidCount }
        for _ in acknowledged..<count {
            let frame = kept.removeFirst()
            guard written > 0 else { continue }
            written -= 1
            writtenBytes -= frame.keptBytes
        }
        acknowledged = count
    }

    // MARK: Received frames

    /// Counts a frame that was handled.
    /// - Returns: The count, if the peer is to be told now.
    mutating func handled(_ frame: SessionFrame, at now: Duration) -> UInt64? {
        guard isAgreed, frame.payload.isCounted else { return nil }
        received += 1
        unreportedBytes += frame.size
        guard unreportedBytes >= SessionWire.ackBytes || received - reported >= SessionWire.ackFrames else {
            if reportDeadline == nil { reportDeadline = now + SessionWire.ackInterval }
            return nil
        }
        return report()
    }

    /// The count that the peer is told now.
    mutating func report() -> UInt64 {
        reported = received
        unreportedBytes = 0
        reportDeadline = nil
        return received
    }

    // MARK: Streams

    /// The stream is gone.
    mutating func lose(at now: Duration) {
        waitsUntil = now + SessionWire.pathInterval
        reportDeadline = nil
    }

    /// The opener asks the peer to move to a new stream.
    mutating func ask() -> SessionMove {
        lastMove += 1
        isAsking = true
        return SessionMove(number: lastMove, received: received)
    }

    /// The new stream has ended without an answer, or the peer has refused it.
    mutating func giveUp() { isAsking = false }

    /// The opener asks for a move.
    mutating func take(_ move: SessionMove) throws(SessionError) {
        guard move.number > lastMove else { throw .invalidMove }
        try resume(after: move.received)
        lastMove = move.number
    }

    /// The session goes on over a new stream, on which the peer has named its count. Frames that follow it wait to be written again.
    mutating func resume(after count: UInt64) throws(SessionError) {
        try acknowledge(count)
        (written, writtenBytes) = (0, 0)
        (waitsUntil, isAsking) = (nil, false)
        _ = report()
    }

    /// The session has ended.
    mutating func end() { self = SessionContinuity(isOffered: false) }
}

/// A request to go on over another stream, in the `settings` of that stream.
package struct SessionMove: Hashable, Sendable {
    /// Grows with each move of the session.
    package let number: UInt64
    /// The number of the receiver's frames that the sender has handled.
    package let received: UInt64
}

extension SessionFrame {
    /// The memory of a frame that is kept, about.
    fileprivate var keptBytes: Int { size + 128 }
}

extension SessionFrame.Payload {
    /// Whether a frame is counted. The others belong to one stream.
    fileprivate var isCounted: Bool {
        switch self {
        case .settings, .ping, .pong, .ack, .moved: false
        case .open, .opened, .refused, .request, .response, .error, .data, .grant, .cancel, .window, .close, .goaway: true
        }
    }
}
