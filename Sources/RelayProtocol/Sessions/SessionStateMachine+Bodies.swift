// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

// Announced bodies. Incoming bodies get their grants from the budgets of the session and the endpoint. Outgoing bodies are sent in slices,
// round-robin.

extension SessionStateMachine {
    // MARK: Receiving

    /// The large messages that arrive: requests of the peer, or responses to ours.
    subscript(assembly kind: SessionFrame.MessageKind) -> SessionAssembly {
        get { kind == .request ? requestAssembly : responseAssembly }
        _modify { if kind == .request { yield &requestAssembly } else { yield &responseAssembly } }
    }

    mutating func announce(
        _ length: Int,
        _ request: SessionRequestID,
        isOutgoing: Bool,
        windowBytes: Int,
        timeLeft: Duration?,
        at index: ConnectionIndex,
        into actions: inout [SessionAction]
    ) {
        let ticket = self[assembly: isOutgoing ? .response : .request].announcements.append(
            .init(body: .init(request: request, isOutgoing: isOutgoing), length: length)
        )
        connections.values[index][request.number, isOutgoing: isOutgoing] =
            .receiving(.announced(length, ticket), windowBytes: windowBytes, timeLeft: timeLeft)
        requestGrants(into: &actions)
    }

    /// Reserves bytes of the endpoint's budgets for the first waiting bodies, if the session's budgets have room.
    mutating func requestGrants(into actions: inout [SessionAction]) {
        guard end == nil else { return }
        if let bytes = requestAssembly.reserveNext() { actions.append(.reserve(bytes, for: .request)) }
        if let bytes = responseAssembly.reserveNext() { actions.append(.reserve(bytes, for: .response)) }
    }

    /// Call this when the bytes of the last `reserve` action of this kind are reserved.
    package mutating func reserved(for kind: SessionFrame.MessageKind, at now: Duration, into actions: inout [SessionAction]) {
        guard let reservation = self[assembly: kind].takeReservation() else { return }
        guard end == nil, let announcement = self[assembly: kind].announcements.remove(reservation.ticket),
            let index = connections.index(forKey: announcement.body.request.connection),
            case .receiving(_, let windowBytes, let timeLeft) =
                connections.values[index][announcement.body.request.number, isOutgoing: announcement.body.isOutgoing]
        else {
            releaseAssembly(reservation.bytes, of: kind, into: &actions)
            return requestGrants(into: &actions)
        }
        let body = announcement.body
        let buffer = ByteBufferAllocator().buffer(capacity: announcement.length)
        connections.values[index][body.request.number, isOutgoing: body.isOutgoing] =
            .receiving(.assembling(buffer, length: announcement.length), windowBytes: windowBytes, timeLeft: timeLeft)
        assemblingCount += 1
        if assemblingCount == 1 { bodyDeadline = now + SessionWire.stalledInterval }
        reply(SessionFrame(.grant(kind), body.request), into: &actions)
        requestGrants(into: &actions)
    }

    mutating func releaseAssembly(_ bytes: Int, of kind: SessionFrame.MessageKind, into actions: inout [SessionAction]) {
        self[assembly: kind].release(bytes)
        actions.append(.release(bytes, for: kind))
    }

    mutating func takeData(
        _ bytes: ByteBuffer,
        isLast: Bool,
        _ request: SessionRequestID,
        isOutgoing: Bool,
        at now: Duration,
        into actions: inout [SessionAction]
    ) throws(SessionError) {
        guard let index = try indexOfOpen(request.connection) else { return }
        let step: BodyStep
        if isOutgoing {
            step = try Self.collect(bytes, isLast: isLast, in: &connections.values[index].outgoing[request.number])
        } else {
            step = try Self.collect(bytes, isLast: isLast, in: &connections.values[index].incoming[request.number])
        }
        switch step {
        case .dropped:
            try connections.values[index].checkUsed(request.number, isOutgoing: isOutgoing)
        case .more:
            bodyProgressed(bytes.readableBytes, at: now)
        case .complete(let message, let windowBytes, let timeLeft):
            bodyProgressed(bytes.readableBytes, at: now)
            assemblingCount -= 1
            let receipt = MessageCredit(
                connection: request.connection,
                kind: isOutgoing ? .response : .request,
                windowBytes: windowBytes,
                assemblyBytes: message.readableBytes
            )
            if isOutgoing {
                connections.values[index].outgoing[request.number] = nil
                awaitedCount -= 1
                actions.append(.responseReceived(request, message: message, receipt))
            } else {
                actions.append(.requestReceived(request, message: message, timeLeft: timeLeft, receipt))
            }
        }
    }

    /// Extends the deadline in proportion to the received bytes, so that a slow peer cannot hold the budget forever.
    private mutating func bodyProgressed(_ bytes: Int, at now: Duration) {
        let bought = SessionWire.bodyKiBTime * bytes / 1_024
        bodyDeadline = min(bodyDeadline + bought, now + SessionWire.stalledInterval)
    }

    private enum BodyStep {
        case dropped
        case more
        case complete(ByteBuffer, windowBytes: Int, timeLeft: Duration?)
    }

    private static func collect(_ bytes: ByteBuffer, isLast: Bool, in exchange: inout Exchange?) throws(SessionError) -> BodyStep {
        switch exchange {
        case nil, .rejecting:
            return .dropped
        case .receiving(.announced, _, _):
            throw .dataNotGranted
        case .sending, .awaitingResponse:
            throw .unexpectedFrame
        case .receiving(.assembling(var buffer, let length), let windowBytes, let timeLeft):
            let missing = length - buffer.readableBytes - bytes.readableBytes
            guard missing >= 0, isLast == (missing == 0) else { throw .bodyLengthMismatch }
            // The buffer must be uniquely referenced, so that the write does not copy it.
            exchange = .awaitingResponse
            buffer.writeImmutableBuffer(bytes)
            if isLast { return .complete(buffer, windowBytes: windowBytes, timeLeft: timeLeft) }
            exchange = .receiving(.assembling(buffer, length: length), windowBytes: windowBytes, timeLeft: timeLeft)
            return .more
        }
    }

    // MARK: Sending

    mutating func answerWasAnnounced() {
        ungrantedAnswers += 1
        if ungrantedAnswers == 1 { grantDeadline = latest + SessionWire.grantInterval }
    }

    /// Extends the deadline of responses in the same way. A granted response blocks later ones, so a slow peer must not hold it forever.
    private mutating func answersProgressed(_ bytes: Int) {
        let bought = SessionWire.bodyKiBTime * bytes / 1_024
        grantDeadline = min(grantDeadline + bought, latest + SessionWire.grantInterval)
    }

    mutating func takeGrant(_ request: SessionRequestID, isOutgoing: Bool) throws(SessionError) {
        guard let index = try indexOfOpen(request.connection) else { return }
        switch connections.values[index][request.number, isOutgoing: isOutgoing] {
        case nil:
            try connections.values[index].checkUsed(request.number, isOutgoing: isOutgoing)
        case .sending(.announced(let body)):
            if !isOutgoing {
                ungrantedAnswers -= 1
                grantDeadline = latest + SessionWire.grantInterval
            }
            let ticket = granted.append(.init(request: request, isOutgoing: isOutgoing))
            connections.values[index][request.number, isOutgoing: isOutgoing] = .sending(.granted(body, ticket))
        case .sending, .awaitingResponse, .receiving, .rejecting:
            throw .unexpectedFrame
        }
    }

    /// Whether `nextData` has a slice to send. Check it after every input.
    package var hasData: Bool { !granted.isEmpty && continuity.writes }

    /// Sends the next slice of the granted bodies, round-robin. Call it whenever the stream accepts more bytes. All other
    /// frames are sent at once and so between two slices.
    /// - Parameter maximumBytes: The size limit of the slice; at most 32 KiB are sent.
    /// - Returns: Whether a slice was sent.
    @discardableResult
    package mutating func nextData(
        maximumBytes: Int = SessionWire.inlineBytes,
        at now: Duration,
        into actions: inout [SessionAction]
    ) -> Bool {
        guard maximumBytes > 0, continuity.writes, let (ticket, key) = granted.first else { return false }
        granted.remove(ticket)
        let (request, isOutgoing) = (key.request, key.isOutgoing)
        guard let index = connections.index(forKey: request.connection),
            case .sending(.granted(var body, _)) = connections.values[index][request.number, isOutgoing: isOutgoing],
            let slice = body.readSlice(length: min(maximumBytes, SessionWire.inlineBytes, body.readableBytes))
        else { return false }
        latest = now
        if !isOutgoing { answersProgressed(slice.readableBytes) }
        let isLast = body.readableBytes == 0
        send(SessionFrame(.data(slice, of: isOutgoing ? .request : .response, isLast: isLast), request), into: &actions)
        if !isLast {
            let ticket = granted.append(key)
            connections.values[index][request.number, isOutgoing: isOutgoing] = .sending(.granted(body, ticket))
        } else if isOutgoing {
            connections.values[index].outgoing[request.number] = .awaitingResponse
        } else {
            finishTheirs(request.number, at: index)
            actions.append(.responseFinished(request, wasSent: true))
            finishClosing(request.connection, at: now, into: &actions)
        }
        return true
    }
}
