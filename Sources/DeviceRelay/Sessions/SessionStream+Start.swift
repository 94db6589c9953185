// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

// The start of a stream: the TLS handshake and the peer's first frame.
extension SessionStream {
    func handshakeCompleted(_ name: String?, _ context: ChannelHandlerContext) {
        guard case .handshaking = start, let peer = environment.peer() else { return failStart(.notAuthentic) }
        if name == BulkWire.applicationProtocol { return startBulk(with: peer, context) }
        guard name == SessionWire.applicationProtocol else { return failStart(.notAuthentic) }
        start = .greeting
        if let moving {
            // A session ends while a way to its peer is looked for, or another stream is faster.
            guard moving.eventLoop === context.eventLoop, moving.handler.peer == peer, let settings = moving.handler.beginMove(on: self)
            else { return failStart(.broken) }
            session = moving.handler
            write(SessionFrame(.settings(settings)))
            flush()
        } else if environment.role == .client {
            begin(with: peer, context).settle()
        }
    }

    /// Begins a session on this stream.
    private func begin(with peer: EndpointID, _ context: ChannelHandlerContext) -> SessionHandler {
        let session = SessionHandler(environment, with: peer, on: self, context.channel.eventLoop)
        self.session = session
        session.change { $0.start(at: $1, into: &$2) }
        return session
    }

    /// Handles the first frame of the peer: its settings for a new session, the request to move one here, or the answer to such a request.
    func takeFirstFrame() {
        guard let context, let peer = environment.peer() else { return }
        guard moving != nil || session == nil else { return takeSettings() }
        let frame: SessionFrame
        do throws(SessionError) {
            guard let next = try decoder.next() else { return }
            frame = next
        } catch {
            guard moving == nil else { return failStart(.broken) }
            // The session reads the error again, and tells the peer.
            _ = begin(with: peer, context)
            return takeSettings()
        }
        if moving != nil {
            guard let session, session.takeAnswer(frame, on: self) else { return failStart(.broken) }
            finishStart(session.session.map { .success(.moved($0)) } ?? .failure(.broken))
        } else if case .settings(let settings) = frame.payload, settings.move != nil {
            return accept(settings, of: peer, context)
        } else {
            let session = begin(with: peer, context)
            session.change { $0.receive(frame, at: $1, into: &$2) }
            if session.machine.end == nil { succeedStart(session) }
        }
        session?.received(on: self)
    }

    private func takeSettings() {
        guard let session, session.receive(on: self, maximumFrames: 1) > 0, session.machine.end == nil else { return }
        succeedStart(session)
        session.received(on: self)
    }

    /// Moves a session of the peer here, if it is there.
    private func accept(_ settings: SessionSettings, of peer: EndpointID, _ context: ChannelHandlerContext) {
        var refusal = SessionError.invalidMove
        if let id = settings.session, let link = environment.movable?.session(id, of: peer), link.eventLoop === context.eventLoop {
            do throws(SessionError) {
                session = link.handler
                try link.handler.move(settings, to: self)
                finishStart(link.handler.session.map { .success(.moved($0)) } ?? .failure(.broken))
                return link.handler.received(on: self)
            } catch {
                refusal = error
                session = nil
            }
        }
        write(SessionFrame(.goaway(SessionGoAway(refusal))))
        flush()
        failStart(.broken)
    }

    private func succeedStart(_ session: SessionHandler) {
        finishStart(session.established().map { .success(.session($0)) } ?? .failure(.broken))
    }

    /// Fails the start. It has no effect after something is established.
    func failStart(_ error: SessionStartError) {
        if case .done = start { return }
        finishStart(.failure(error))
        close()
    }

    func finishStart(_ result: Result<PeerLink, SessionStartError>) {
        start = .done
        startTimer?.cancel()
        // Released here: from now on the waiting callers keep the session alive.
        let started = started
        self.started = nil
        started?(result)
    }
}
