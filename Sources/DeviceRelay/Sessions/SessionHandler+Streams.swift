// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

// The streams of a session: the one that it uses, and the one to which this side asks to move it.
extension SessionHandler {
    /// The peer's settings have arrived.
    func established() -> PeerSession? {
        guard let link else { return nil }
        if environment.role == .server, let id = machine.id {
            movableID = id
            environment.movable?.add(link, id, of: peer)
        }
        session = PeerSession(peer: peer, isOpenedHere: environment.role == .client, link: link)
        return session
    }

    /// Asks to move to a new stream.
    /// - Returns: The first frame for the stream; `nil` if the session cannot move now.
    func beginMove(on stream: SessionStream) -> SessionSettings? {
        // What waits belongs to the older stream.
        performActions()
        guard !isShuttingDown, let settings = machine.beginMove() else { return nil }
        asking = stream
        self.stream?.holdReading(true)
        return settings
    }

    /// Handles the answer to `beginMove`.
    /// - Returns: Whether the session is now on the new stream.
    func takeAnswer(_ frame: SessionFrame, on stream: SessionStream) -> Bool {
        guard asking === stream else { return false }
        asking = nil
        performActions()
        var isMoved = false
        change { machine, now, actions in
            isMoved = machine.takeAnswer(frame, at: now, into: &actions)
            if isMoved { use(stream) }
        }
        if !isMoved { continueReading() }
        settle()
        return isMoved
    }

    /// Moves to a new stream, as the peer asks.
    func move(_ settings: SessionSettings, to stream: SessionStream) throws(SessionError) {
        performActions()
        guard !isShuttingDown else { throw .invalidMove }
        var refusal: SessionError?
        change { machine, now, actions in
            do throws(SessionError) {
                try machine.move(settings, at: now, into: &actions)
                use(stream)
            } catch {
                refusal = error
            }
        }
        settle()
        if let refusal { throw refusal }
    }

    private func use(_ stream: SessionStream) {
        let older = self.stream
        self.stream = stream
        admit = stream.environment.admit
        older?.leave()
        link?.streams.update { $0 = .init(isDirect: stream.environment.isDirect, moves: $0.moves + 1) }
    }

    /// The session stays on the older stream.
    private func continueReading() {
        guard let stream else { return }
        stream.holdReading(false)
        received(on: stream)
    }

    /// A stream has ended. The session waits for another one, if it can move.
    func streamEnded(_ stream: SessionStream) {
        if asking === stream {
            asking = nil
            machine.moveFailed()
            continueReading()
        } else if self.stream === stream {
            if isShuttingDown {
                change { machine, _, actions in machine.connectionLost(into: &actions) }
            } else {
                change { $0.streamEnded(at: $1, into: &$2) }
            }
            self.stream = nil
        }
        if machine.end != nil, self.stream == nil { finish() } else { settle() }
    }

    /// The machine has no use for the stream any more.
    func streamLost() {
        let lost = stream
        stream = nil
        lost?.leave()
        link?.streams.update { $0.isLost = true }
        // A session that shuts down moves no more.
        if isShuttingDown { feed { machine, actions in machine.connectionLost(into: &actions) } }
    }

    /// The session has ended, and no stream is left.
    func finish() {
        timer?.scheduled.cancel()
        timer = nil
        closeTimer?.cancel()
        release(leaving)
        leaving = AnswerPlace()
        if let link, let movableID { environment.movable?.remove(link, movableID, of: peer) }
        link?.isClosed()
        (link, session) = (nil, nil)
    }
}
