// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

extension SessionStateMachine {
    /// Processes a frame of the peer. A frame that breaks a rule ends the session, and the peer gets the reason.
    package mutating func receive(_ frame: SessionFrame, at now: Duration, into actions: inout [SessionAction]) {
        guard end == nil else { return }
        receivedBytes(at: now)
        do throws(SessionError) {
            try take(frame, at: now, into: &actions)
            guard end == nil else { return }
            if let count = continuity.handled(frame, at: now) { actions.append(.send(SessionFrame(.ack(count)))) }
            guard repliesSent - repliesFlushed <= SessionWire.unflushedReplies else { throw .tooManyReplies }
        } catch {
            fail(error, into: &actions)
        }
    }

    /// Processes the received frames of the peer. A decoding error ends the session, too.
    /// - Parameter maximumFrames: The maximum number of frames to process; the rest stay in the decoder.
    /// - Returns: The number of processed frames.
    @discardableResult
    package mutating func receive(
        from decoder: inout SessionFrameDecoder,
        maximumFrames: Int = .max,
        at now: Duration,
        into actions: inout [SessionAction]
    ) -> Int {
        var count = 0
        do throws(SessionError) {
            while count < maximumFrames, end == nil, continuity.reads, let frame = try decoder.next() {
                receive(frame, at: now, into: &actions)
                count += 1
            }
        } catch {
            fail(error, into: &actions)
        }
        return count
    }

    private mutating func take(_ frame: SessionFrame, at now: Duration, into actions: inout [SessionAction]) throws(SessionError) {
        let id = frame.connection
        let request = SessionRequestID(connection: id, number: frame.number)
        if case .settings(let settings) = frame.payload {
            guard !hasPeerSettings else { throw .settingsExpected }
            guard settings.version >= 1 else { throw .versionUnsupported }
            hasPeerSettings = true
            agreed = self.settings.agreed(with: settings)
            try agreeToMove(with: settings, into: &actions)
            return
        }
        guard hasPeerSettings else { throw .settingsExpected }
        switch frame.payload {
        case .settings: break
        case .request(let message, let timeLeft):
            try takeRequest(message, timeLeft: timeLeft, request, frame, into: &actions)
        case .response(let message):
            try takeResponse(message, request, frame, into: &actions)
        case .error(let failure):
            try takeError(failure, request, frame, into: &actions)
        case .data(let bytes, of: let kind, isLast: let isLast):
            try takeData(bytes, isLast: isLast, request, isOutgoing: kind == .response, at: now, into: &actions)
        case .grant(let kind):
            try takeGrant(request, isOutgoing: kind == .request)
        case .cancel:
            try takeCancel(request, at: now, into: &actions)
        case .window(let credit):
            guard let index = try index(of: id) else { return }
            try connections.values[index].credited(credit)
            sendQueued(at: index, into: &actions)
            finishClosing(id, at: now, into: &actions)
        case .open(let opening):
            try takeOpen(id, opening, into: &actions)
        case .opened:
            guard let index = try indexOfOurs(id) else { return }
            guard connections.values[index].phase == .opening else { throw .unexpectedFrame }
            connections.values[index].phase = .open
            awaitedCount -= 1
            actions.append(.openSucceeded(id))
        case .refused(let rejection):
            guard let index = try indexOfOurs(id) else { return }
            guard connections.values[index].phase == .opening else { throw .unexpectedFrame }
            actions.append(.openFailed(id, .refused(rejection)))
            forget(id, at: now, into: &actions)
        case .close(let closure):
            try takeClose(id, closure, at: now, into: &actions)
        case .ping(let value):
            reply(SessionFrame(.pong(value)), into: &actions)
        case .pong:
            break
        case .goaway(let goaway):
            takeGoAway(goaway, at: now, into: &actions)
        case .ack(let count):
            try takeAck(count, into: &actions)
        case .moved:
            // It is the first frame of a stream, which `takeAnswer` handles.
            throw .unexpectedFrame
        }
    }

    // MARK: Connections

    private func isOutgoing(_ id: SessionConnectionID) -> Bool {
        (id.rawValue & 1 == 1) == (role == .client)
    }

    /// The index of a connection; `nil` if it is closed.
    /// - Throws: `invalidConnection` if it was never opened.
    private func index(of id: SessionConnectionID) throws(SessionError) -> ConnectionIndex? {
        if let index = connections.index(forKey: id) { return index }
        guard id <= (isOutgoing(id) ? lastOutgoing : lastTheirs) else { throw .invalidConnection }
        return nil
    }

    private func indexOfOurs(_ id: SessionConnectionID) throws(SessionError) -> ConnectionIndex? {
        guard isOutgoing(id) else { throw .invalidConnection }
        return try index(of: id)
    }

    /// The index of a connection that can carry requests; `nil` if its frames must be dropped.
    func indexOfOpen(_ id: SessionConnectionID) throws(SessionError) -> ConnectionIndex? {
        guard let index = try index(of: id) else { return nil }
        switch connections.values[index].phase {
        case .open, .closing: return index
        case .abandoned: return nil
        case .opening, .offered: throw .unexpectedFrame
        }
    }

    private mutating func takeOpen(
        _ id: SessionConnectionID,
        _ opening: SessionOpening,
        into actions: inout [SessionAction]
    ) throws(SessionError) {
        guard !isOutgoing(id), id > lastTheirs else { throw .invalidConnection }
        guard !isPeerDraining else { throw .unexpectedFrame }
        lastTheirs = id
        // The peer learns from the `goaway` frame that this connection failed.
        guard !isDraining else { return }
        guard connections.count < agreed.connectionsPerSession else {
            let rejection = SessionRejection(.resourceLimitsExceeded, Limit.connectionsPerSession.rawValue)
            return reply(SessionFrame(.refused(rejection), connection: id), into: &actions)
        }
        connections.insert(SessionConnection(phase: .offered), for: id)
        idleSince = nil
        actions.append(.openReceived(id, opening))
    }

    private mutating func takeClose(
        _ id: SessionConnectionID,
        _ closure: SessionClosure,
        at now: Duration,
        into actions: inout [SessionAction]
    ) throws(SessionError) {
        guard let index = try index(of: id) else { return }
        switch connections.values[index].phase {
        case .opening, .abandoned: throw .unexpectedFrame
        case .offered:
            connections.values[index].phase = .abandoned
            actions.append(.connectionClosed(id, .closed(closure)))
        case .open:
            remove(id, requests: .connectionClosed(closure), into: &actions) { _ in .connectionClosed(id, .closed(closure)) }
            connectionWasRemoved(at: now, into: &actions)
        case .closing:
            remove(id, requests: .connectionClosed(closure), into: &actions)
            connectionWasRemoved(at: now, into: &actions)
        }
    }

    private mutating func takeGoAway(_ goaway: SessionGoAway, at now: Duration, into actions: inout [SessionAction]) {
        guard goaway.isGraceful else { return end(.failedByPeer(goaway), into: &actions) }
        isPeerDraining = true
        for (id, connection) in connections.all where connection.phase == .opening && id > goaway.lastConnection {
            actions.append(.openFailed(id, .refused(SessionRejection(.sessionEnding))))
            forget(id, at: now, into: &actions)
        }
        endIfDrained(into: &actions)
    }

    // MARK: Requests

    private mutating func takeRequest(
        _ message: SessionFrame.Message,
        timeLeft: Duration?,
        _ request: SessionRequestID,
        _ frame: SessionFrame,
        into actions: inout [SessionAction]
    ) throws(SessionError) {
        guard let index = try indexOfOpen(request.connection) else { return }
        try connections.values[index].received(frame)
        try connections.values[index].receivedNumber(request.number)
        guard connections.values[index].phase == .open else { return credit(frame.size, at: index, into: &actions) }
        guard connections.values[index].incoming.count < agreed.requestsPerConnection, unfinishedCount < agreed.requestsPerSession else {
            throw .tooManyRequests
        }
        unfinishedCount += 1
        guard message.length <= agreed.messageBytes else {
            credit(frame.size, at: index, into: &actions)
            return reject(
                request,
                LimitExceeded(limit: .messageBytes, allowed: agreed.messageBytes, requested: message.length),
                at: index,
                into: &actions
            )
        }
        switch message {
        case .inline(let bytes):
            connections.values[index].incoming[request.number] = .awaitingResponse
            let receipt = MessageCredit(connection: request.connection, kind: .request, windowBytes: frame.size, assemblyBytes: 0)
            actions.append(.requestReceived(request, message: bytes, timeLeft: timeLeft, receipt))
        case .announced(let length):
            announce(length, request, isOutgoing: false, windowBytes: frame.size, timeLeft: timeLeft, at: index, into: &actions)
        }
    }

    private mutating func takeResponse(
        _ message: SessionFrame.Message,
        _ request: SessionRequestID,
        _ frame: SessionFrame,
        into actions: inout [SessionAction]
    ) throws(SessionError) {
        guard let index = try indexOfOpen(request.connection) else { return }
        try connections.values[index].received(frame)
        guard let exchange = connections.values[index].outgoing[request.number] else {
            try connections.values[index].checkUsed(request.number, isOutgoing: true)
            return credit(frame.size, at: index, into: &actions)
        }
        guard case .awaitingResponse = exchange else { throw .unexpectedFrame }
        guard message.length <= agreed.messageBytes else {
            credit(frame.size, at: index, into: &actions)
            if case .announced = message { send(SessionFrame(.cancel, request), into: &actions) }
            let excess = LimitExceeded(limit: .messageBytes, allowed: agreed.messageBytes, requested: message.length)
            return dropOurs(request, .responseTooLarge(excess), into: &actions)
        }
        switch message {
        case .inline(let bytes):
            connections.values[index].outgoing[request.number] = nil
            awaitedCount -= 1
            let receipt = MessageCredit(connection: request.connection, kind: .response, windowBytes: frame.size, assemblyBytes: 0)
            actions.append(.responseReceived(request, message: bytes, receipt))
        case .announced(let length):
            announce(length, request, isOutgoing: true, windowBytes: frame.size, timeLeft: nil, at: index, into: &actions)
        }
    }

    private mutating func takeError(
        _ failure: SessionFailure,
        _ request: SessionRequestID,
        _ frame: SessionFrame,
        into actions: inout [SessionAction]
    ) throws(SessionError) {
        guard let index = try indexOfOpen(request.connection) else { return }
        try connections.values[index].received(frame)
        // The frame leaves nothing for the app to take, so its credit is returned at once.
        credit(frame.size, at: index, into: &actions)
        switch connections.values[index].outgoing[request.number] {
        case nil: try connections.values[index].checkUsed(request.number, isOutgoing: true)
        case .sending(.queued), .receiving, .rejecting: throw .unexpectedFrame
        case .sending, .awaitingResponse: dropOurs(request, .failed(failure), into: &actions)
        }
    }

    private mutating func takeCancel(
        _ request: SessionRequestID,
        at now: Duration,
        into actions: inout [SessionAction]
    ) throws(SessionError) {
        guard let index = try indexOfOpen(request.connection) else { return }
        guard connections.values[index].incoming[request.number] != nil else {
            return try connections.values[index].checkUsed(request.number, isOutgoing: false)
        }
        dropTheirs(request, into: &actions)
        requestGrants(into: &actions)
        finishClosing(request.connection, at: now, into: &actions)
    }
}
