// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOSSL
import NIOTLS
import RelayProtocol

// The start of a session (TLS handshake and the peer's first frame), and the end of its stream.
extension SessionHandler {
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted(negotiatedProtocol: let name):
            guard case .handshaking = start, let peer = environment.peer() else { return failStart(.notAuthentic) }
            if name == BulkWire.applicationProtocol { return startBulk(with: peer, context) }
            guard name == SessionWire.applicationProtocol else { return failStart(.notAuthentic) }
            self.peer = peer
            let memory = environment.memory.share(of: peer)
            self.memory = memory
            pending = PendingMemory(share: memory.pending)
            link = SessionLink(channel: context.channel, handler: self, memory: memory)
            start = .greeting
            change { $0.start(at: $1, into: &$2) }
            settle()
        case ChannelEvent.inputClosed: context.close(promise: nil)
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case NIOSSLError.uncleanShutdown: failStart(.broken)
        case NIOSSLError.handshakeFailed(.sslError(let stack)) where stack == [.eofDuringHandshake]: failStart(.broken)
        // This includes the TLS alert by which the peer rejects this side's certificate.
        case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError: failStart(.notAuthentic)
        default: failStart(.broken)
        }
        context.close(promise: nil)
    }

    func succeedStart() {
        guard let link, let peer else { return }
        finishStart(.success(.session(PeerSession(peer: peer, isOpenedHere: environment.role == .client, link: link))))
    }

    /// Fails the start. It has no effect after the session is established.
    func failStart(_ error: SessionStartError) {
        if case .done = start { return }
        finishStart(.failure(error))
        context?.close(promise: nil)
    }

    func finishStart(_ result: Result<PeerLink, SessionStartError>) {
        start = .done
        startTimer?.cancel()
        // Released here: from now on the waiting callers keep the session alive.
        let started = started
        self.started = nil
        started?(result)
    }

    func streamEnded() {
        change { $0.connectionLost(into: &$2) }
        failStart(.broken)
        timer?.scheduled.cancel()
        timer = nil
        closeTimer?.cancel()
        release(leaving)
        leaving = AnswerPlace()
        link = nil
    }
}
