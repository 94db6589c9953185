// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

extension SessionStateMachine {
    typealias ConnectionIndex = SessionConnectionTable.Index
    typealias Exchange = SessionConnection.Exchange

    func check(_ limit: Limit, _ requested: Int, _ allowed: Int) throws(SessionSendError) {
        guard requested <= allowed else {
            throw .limitExceeded(LimitExceeded(limit: limit, allowed: allowed, requested: requested))
        }
    }

    /// Sends a frame that the peer can cause at will.
    mutating func reply(_ frame: SessionFrame, into actions: inout [SessionAction]) {
        repliesSent += 1
        send(frame, into: &actions)
    }

    func indexAwaitingResponse(_ request: SessionRequestID) -> ConnectionIndex? {
        guard let index = connections.index(forKey: request.connection),
            case .awaitingResponse = connections.values[index].incoming[request.number]
        else { return nil }
        return index
    }

    // MARK: Sending

    static func content(of message: ByteBuffer) -> (SessionFrame.Message, body: ByteBuffer?) {
        message.readableBytes <= SessionWire.inlineBytes ? (.inline(message), nil) : (.announced(message.readableBytes), message)
    }

    /// Sends a frame that is charged to the window, or queues it until the window has room.
    @discardableResult
    mutating func transmit(
        _ frame: SessionFrame,
        _ body: ByteBuffer?,
        isOutgoing: Bool,
        at index: ConnectionIndex,
        into actions: inout [SessionAction]
    ) -> SessionResponseProgress {
        if connections.values[index].line.isEmpty, connections.values[index].charge(frame) {
            send(frame, into: &actions)
            return wasSent(frame, body, isOutgoing: isOutgoing, at: index)
        }
        let ticket = connections.values[index].line.append(.init(frame: frame, body: body, isOutgoing: isOutgoing))
        connections.values[index][frame.number, isOutgoing: isOutgoing] = .sending(.queued(ticket))
        return .waiting
    }

    /// Updates a request after its first frame was sent.
    private mutating func wasSent(
        _ frame: SessionFrame,
        _ body: ByteBuffer?,
        isOutgoing: Bool,
        at index: ConnectionIndex
    ) -> SessionResponseProgress {
        if let body {
            connections.values[index][frame.number, isOutgoing: isOutgoing] = .sending(.announced(body))
            if !isOutgoing { answerWasAnnounced() }
            return .waiting
        }
        if isOutgoing {
            connections.values[index].outgoing[frame.number] = .awaitingResponse
        } else {
            finishTheirs(frame.number, at: index)
        }
        return .sent
    }

    /// Sends queued frames that now fit into the window.
    mutating func sendQueued(at index: ConnectionIndex, into actions: inout [SessionAction]) {
        while let (ticket, queued) = connections.values[index].line.first, connections.values[index].charge(queued.frame) {
            connections.values[index].line.remove(ticket)
            send(queued.frame, into: &actions)
            let frame = queued.frame
            if !queued.isOutgoing, case .rejecting = connections.values[index].incoming[frame.number] {
                finishTheirs(frame.number, at: index)
                continue
            }
            if wasSent(frame, queued.body, isOutgoing: queued.isOutgoing, at: index) == .sent, !queued.isOutgoing {
                let request = SessionRequestID(connection: frame.connection, number: frame.number)
                actions.append(.responseFinished(request, wasSent: true))
            }
        }
    }

    /// Rejects a request before the app sees it.
    mutating func reject(
        _ request: SessionRequestID,
        _ excess: LimitExceeded,
        at index: ConnectionIndex,
        into actions: inout [SessionAction]
    ) {
        let frame = SessionFrame(.error(SessionFailure(.messageTooLarge, excess.description)), request)
        // The peer can cause this frame at will, like a `pong`.
        repliesSent += 1
        if transmit(frame, nil, isOutgoing: false, at: index, into: &actions) == .waiting,
            case .sending(.queued(let ticket)) = connections.values[index].incoming[request.number]
        {
            connections.values[index].incoming[request.number] = .rejecting(ticket)
        }
    }

    /// Returns credit to the peer, in steps.
    mutating func credit(_ bytes: Int, at index: ConnectionIndex, into actions: inout [SessionAction]) {
        guard let credit = connections.values[index].consumed(bytes) else { return }
        reply(SessionFrame(.window(credit), connection: connections.keys[index]), into: &actions)
    }

    // MARK: Ending

    /// Ends an answered request of the peer.
    mutating func finishTheirs(_ number: UInt32, at index: ConnectionIndex) {
        connections.values[index].incoming[number] = nil
        unfinishedCount -= 1
    }

    /// Sends `cancel` for a request of this side, unless the peer has not received the request.
    mutating func sendCancel(_ request: SessionRequestID, into actions: inout [SessionAction]) {
        if case .sending(.queued) = connections[request.connection]?.outgoing[request.number] { return }
        send(SessionFrame(.cancel, request), into: &actions)
    }

    /// Ends a request of this side without a response.
    mutating func dropOurs(_ request: SessionRequestID, _ failure: SessionRequestFailure, into actions: inout [SessionAction]) {
        guard let index = connections.index(forKey: request.connection),
            let exchange = connections.values[index].outgoing.removeValue(forKey: request.number)
        else { return }
        awaitedCount -= 1
        leaveLine(discard(exchange, isOutgoing: true, into: &actions), at: index, into: &actions)
        if case .receiving(_, let windowBytes, _) = exchange { credit(windowBytes, at: index, into: &actions) }
        actions.append(.requestFailed(request, failure))
    }

    /// Ends a request of the peer without a response.
    mutating func dropTheirs(_ request: SessionRequestID, into actions: inout [SessionAction]) {
        guard let index = connections.index(forKey: request.connection),
            let exchange = connections.values[index].incoming.removeValue(forKey: request.number)
        else { return }
        unfinishedCount -= 1
        leaveLine(discard(exchange, isOutgoing: false, into: &actions), at: index, into: &actions)
        if case .receiving(_, let windowBytes, _) = exchange { credit(windowBytes, at: index, into: &actions) }
        if let word = Self.endAction(request, exchange) { actions.append(word) }
    }

    /// Removes a frame from the queue. Later frames may now fit into the window.
    private mutating func leaveLine(
        _ ticket: RemovableQueue<SessionConnection.QueuedFrame>.Ticket?,
        at index: ConnectionIndex,
        into actions: inout [SessionAction]
    ) {
        guard let ticket else { return }
        connections.values[index].line.remove(ticket)
        sendQueued(at: index, into: &actions)
    }

    /// The action that reports the end of a peer's request to the app.
    private static func endAction(_ request: SessionRequestID, _ exchange: Exchange) -> SessionAction? {
        switch exchange {
        case .awaitingResponse: .requestCancelled(request)
        case .sending: .responseFinished(request, wasSent: false)
        case .receiving, .rejecting: nil
        }
    }

    /// Releases what a request occupies.
    /// - Returns: Its ticket in the connection's queue, if it has one.
    private mutating func discard(
        _ exchange: Exchange,
        isOutgoing: Bool,
        into actions: inout [SessionAction]
    ) -> RemovableQueue<SessionConnection.QueuedFrame>.Ticket? {
        switch exchange {
        case .sending(.queued(let ticket)), .rejecting(let ticket):
            return ticket
        case .sending(.granted(_, let ticket)):
            granted.remove(ticket)
        case .receiving(.announced(_, let ticket), _, _):
            self[assembly: isOutgoing ? .response : .request].announcements.remove(ticket)
        case .receiving(.assembling(_, let length), _, _):
            assemblingCount -= 1
            releaseAssembly(length, of: isOutgoing ? .response : .request, into: &actions)
        case .sending(.announced):
            if !isOutgoing { ungrantedAnswers -= 1 }
        case .awaitingResponse:
            break
        }
        return nil
    }

    /// Removes a connection and releases what it occupies. The actions that end its requests precede the one that ends the connection.
    mutating func remove(
        _ id: SessionConnectionID,
        requests failure: SessionRequestFailure,
        into actions: inout [SessionAction],
        connection endAction: (SessionConnection.Phase) -> SessionAction? = { _ in nil }
    ) {
        guard let connection = connections.removeValue(forKey: id) else { return }
        switch connection.phase {
        case .opening: awaitedCount -= 1
        case .closing: closingCount -= 1
        case .offered, .open, .abandoned: break
        }
        awaitedCount -= connection.outgoing.count
        unfinishedCount -= connection.incoming.count
        for (number, exchange) in connection.outgoing.sorted(by: { $0.key < $1.key }) {
            _ = discard(exchange, isOutgoing: true, into: &actions)
            actions.append(.requestFailed(SessionRequestID(connection: id, number: number), failure))
        }
        for (number, exchange) in connection.incoming.sorted(by: { $0.key < $1.key }) {
            _ = discard(exchange, isOutgoing: false, into: &actions)
            if let word = Self.endAction(SessionRequestID(connection: id, number: number), exchange) { actions.append(word) }
        }
        if let word = endAction(connection.phase) { actions.append(word) }
    }

    /// Removes a connection without requests.
    mutating func forget(_ id: SessionConnectionID, at now: Duration, into actions: inout [SessionAction]) {
        remove(id, requests: .cancelled, into: &actions)
        connectionWasRemoved(at: now, into: &actions)
    }

    mutating func connectionWasRemoved(at now: Duration, into actions: inout [SessionAction]) {
        requestGrants(into: &actions)
        if connections.isEmpty { idleSince = now }
        endIfDrained(into: &actions)
    }
}
