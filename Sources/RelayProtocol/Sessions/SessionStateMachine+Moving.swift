// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A session that goes on over another stream (feature `move`).
extension SessionStateMachine {
    /// What a side offers of the feature.
    package enum MoveOffer: Hashable, Sendable {
        case none
        /// As the opener of the session, which alone begins moves.
        case opener(SessionID)
        case acceptor

        fileprivate var id: SessionID? {
            if case .opener(let id) = self { id } else { nil }
        }
    }

    static func settings(_ limits: Limits, _ offer: MoveOffer) -> SessionSettings {
        var settings = SessionSettings(limits: limits)
        if offer != .none { settings.features.append(SessionWire.moveFeature) }
        settings.session = offer.id
        return settings
    }

    /// The id of the session, if it can move. Known when the peer's settings have arrived.
    package var id: SessionID? { continuity.isAgreed ? settings.session ?? peerSession : nil }

    /// Whether the session has a stream. Otherwise it waits for one.
    package var hasStream: Bool { continuity.hasStream }

    /// Whether frames of the present stream may be handled. `receive(from:)` leaves them in the decoder otherwise.
    package var reads: Bool { continuity.reads }

    mutating func agreeToMove(with peer: SessionSettings, into actions: inout [SessionAction]) throws(SessionError) {
        guard peer.move == nil else { throw .invalidMove }
        if role == .server { peerSession = peer.session }
        guard agreed.features.contains(SessionWire.moveFeature), settings.session ?? peerSession != nil else {
            return actions += continuity.decline().map { .send($0) }
        }
        continuity.agree()
    }

    /// Sends a frame, or keeps it until it may be sent.
    mutating func send(_ frame: SessionFrame, into actions: inout [SessionAction]) {
        let waits = continuity.holds
        if continuity.take(frame) {
            actions.append(.send(frame))
        } else if !waits {
            repliesBeforeWait = repliesSent
        }
    }

    /// Sends the last frame of the session. It overtakes frames that wait.
    func sendLast(_ goaway: SessionGoAway, into actions: inout [SessionAction]) {
        if continuity.hasStream { actions.append(.send(SessionFrame(.goaway(goaway)))) }
    }

    /// Sends the frames that have waited and may be sent now.
    mutating func sendHeld(into actions: inout [SessionAction]) {
        while let frame = continuity.nextHeld() { actions.append(.send(frame)) }
    }

    mutating func takeAck(_ count: UInt64, into actions: inout [SessionAction]) throws(SessionError) {
        guard continuity.isAgreed else { throw .unexpectedFrame }
        try continuity.acknowledge(count)
        sendHeld(into: &actions)
    }

    // MARK: Loss

    /// Call this when the present stream has closed or failed. The session waits for another one, if it can move; otherwise it ends.
    package mutating func streamEnded(at now: Duration, into actions: inout [SessionAction]) {
        guard end == nil, continuity.hasStream else { return }
        guard continuity.isAgreed else { return end(.connectionLost, into: &actions) }
        latest = now
        continuity.lose(at: now)
        (probeDeadline, unansweredPings) = (nil, 0)
        actions.append(.streamLost)
    }

    /// The peer is silent: its stream is no longer of use.
    mutating func streamIsSilent(at now: Duration, into actions: inout [SessionAction]) {
        guard continuity.isAgreed else { return fail(.timedOut, into: &actions) }
        streamEnded(at: now, into: &actions)
    }

    // MARK: Another stream

    /// Begins a move, as the opener. Send the settings as the first frame of a new stream, and pass its first frame to `takeAnswer`, or its
    /// end to `moveFailed`. Until then the older stream may still be written, but frames from it wait.
    /// - Returns: `nil` if the session cannot move now: it has ended, is being moved, or is not the opener's.
    package mutating func beginMove() -> SessionSettings? {
        guard end == nil, role == .client, continuity.isAgreed, !continuity.isAsking else { return nil }
        var settings = settings
        settings.move = continuity.ask()
        return settings
    }

    /// The new stream has ended without an answer. The session goes on over the older one, if there is one.
    package mutating func moveFailed() { continuity.giveUp() }

    /// Handles the first frame of the new stream.
    /// - Returns: Whether the session has moved. Then the actions belong to the new stream, and the older one is to be closed. Otherwise the
    ///   new one is.
    package mutating func takeAnswer(_ frame: SessionFrame, at now: Duration, into actions: inout [SessionAction]) -> Bool {
        guard end == nil, continuity.isAsking else { return false }
        switch frame.payload {
        case .moved(let received):
            do throws(SessionError) {
                try resume(after: received, at: now)
            } catch {
                fail(error, into: &actions)
                return false
            }
            sendHeld(into: &actions)
            return true
        case .goaway(let goaway):
            continuity.giveUp()
            // Without an older stream nothing is left.
            if !continuity.hasStream { end(.failedByPeer(goaway), into: &actions) }
            return false
        default:
            continuity.giveUp()
            return false
        }
    }

    /// Moves to a new stream, as the opener has asked for in the settings of that stream. Then the actions belong to the new stream, and the
    /// older one is to be closed.
    /// - Throws: Why the new stream is refused. The session stays where it is.
    package mutating func move(_ settings: SessionSettings, at now: Duration, into actions: inout [SessionAction]) throws(SessionError) {
        guard end == nil, let id, role == .server, settings.session == id, let move = settings.move else { throw .invalidMove }
        let lost = continuity.waitsUntil
        try continuity.take(move)
        resumed(at: now, afterWaitUntil: lost)
        actions.append(.send(SessionFrame(.moved(continuity.received))))
        sendHeld(into: &actions)
    }

    private mutating func resume(after count: UInt64, at now: Duration) throws(SessionError) {
        let lost = continuity.waitsUntil
        try continuity.resume(after: count)
        resumed(at: now, afterWaitUntil: lost)
    }

    /// The time without a stream does not count for the deadlines of bodies.
    private mutating func resumed(at now: Duration, afterWaitUntil end: Duration?) {
        if let end {
            let pause = max(.zero, now - (end - SessionWire.pathInterval))
            bodyDeadline += pause
            grantDeadline += pause
        }
        receivedBytes(at: now)
    }
}
