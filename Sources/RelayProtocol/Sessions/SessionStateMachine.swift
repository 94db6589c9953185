// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// One side of a session: app service connections with requests both ways over one byte stream.
///
/// Its owner feeds it what the app wants, what the decoder yields and the time, and does what the actions say, in order.
/// Messages are opaque. The machine keeps no clock (`now` is the time since any fixed start) and does no I/O.
///
/// What a peer can make it hold is bounded: per connection a window of bytes that the app has not taken, per session the
/// assembly budget of announced messages, a number of connections and requests, and a number of answers that have not
/// left. What the app itself hands in is the app's to bound: `responseFinished` tells when it has left, and a session whose
/// peer takes none of its announced answers ends.
///
/// starting → running → (draining →) ended. Settings are the first frame each way. A side may open connections without
/// waiting for the other's settings; all else follows from `opened`, which the other sends after its own.
package struct SessionStateMachine: Sendable {
    /// Which side of the TLS connection this is.
    package enum Role: Hashable, Sendable {
        case client
        case server
    }

    package let role: Role
    let timing: SessionTiming
    let settings: SessionSettings
    /// What applies; before the peer's settings have come, our own.
    var agreed: SessionSettings
    var hasPeerSettings = false
    /// How it ended, once it has.
    package internal(set) var end: SessionEnd?

    var connections = SessionConnectionTable()
    /// The highest connection ids so far; lower ones that are not there are closed.
    var lastOurs: SessionConnectionID
    var lastTheirs: SessionConnectionID
    /// Whether we, or the peer, said that there will be no new connections.
    var isDraining = false
    var isPeerDraining = false
    /// Connections that the app closed and that wait for their last responses.
    var closingCount = 0

    /// Large messages that arrive.
    var requestAssembly: SessionAssembly
    var responseAssembly: SessionAssembly
    /// Bodies that are being received, and until when more bytes of them must come.
    var assemblingCount = 0
    var bodyDeadline = Duration.zero
    /// Answers of ours that were announced and not granted, and until when there must be a grant or progress of what was granted.
    var ungrantedAnswers = 0
    var grantDeadline = Duration.zero
    /// Bodies of ours that the peer granted, in turn.
    var granted = WaitingLine<SessionConnection.BodyKey>()

    /// Our opens and requests that wait for the peer.
    var awaitedCount = 0
    /// Requests of the peer that are not finished.
    package internal(set) var unfinishedCount = 0
    /// The latest time that the machine was told.
    var latest = Duration.zero
    var lastHeard = Duration.zero
    var idleSince: Duration?
    var unansweredPings = 0
    var lastPing = Duration.zero
    /// Until when the peer has to show life, if it was asked to.
    var probeDeadline: Duration?
    var pingValue: UInt64 = 0

    /// Answers to the peer so far, and how many of them have left.
    package internal(set) var repliesSent: UInt64 = 0
    var repliesFlushed: UInt64 = 0

    package init(role: Role, limits: Limits = Limits(), timing: SessionTiming = SessionTiming()) {
        self.role = role
        self.timing = timing
        self.settings = SessionSettings(limits: limits)
        self.agreed = settings
        self.requestAssembly = SessionAssembly(limit: limits.assemblyBytesPerPeer)
        self.responseAssembly = SessionAssembly(limit: limits.assemblyBytesPerPeer)
        self.lastOurs = SessionConnectionID(0)
        self.lastTheirs = SessionConnectionID(0)
    }

    /// Whether `openConnection` can succeed.
    package var takesConnections: Bool { end == nil && !isDraining && !isPeerDraining }

    /// The connections that are there.
    package var connectionCount: Int { connections.count }

    /// Bytes of the peer's messages that the machine accounts for: sent within a window or granted, and not taken by the app.
    package var heldBytes: Int {
        connections.values.reduce(requestAssembly.bytes + responseAssembly.bytes) { $0 + $1.unconsumed }
    }

    // MARK: Life

    /// Begins: call it once, when the stream is there.
    package mutating func start(at now: Duration, into actions: inout [SessionAction]) {
        lastHeard = now
        latest = now
        idleSince = now + timing.unusedInterval - timing.idleInterval
        actions.append(.send(SessionFrame(.settings(settings))))
    }

    /// Takes no new connections; the session ends when the last has gone.
    package mutating func drain(into actions: inout [SessionAction]) {
        guard end == nil, !isDraining else { return }
        isDraining = true
        actions.append(.send(SessionFrame(.goaway(SessionGoAway(lastConnection: lastTheirs)))))
        endIfDrained(into: &actions)
    }

    /// The byte stream broke off or ended.
    package mutating func connectionLost(into actions: inout [SessionAction]) {
        end(.connectionLost, into: &actions)
    }

    func endsWhenEmpty() -> Bool { isDraining || isPeerDraining }

    mutating func endIfDrained(into actions: inout [SessionAction]) {
        if connections.isEmpty, endsWhenEmpty() { end(.drained, into: &actions) }
    }

    /// Tells the peer why, and ends.
    mutating func fail(_ error: SessionError, into actions: inout [SessionAction]) {
        guard end == nil else { return }
        let goaway = SessionGoAway(lastConnection: lastTheirs, code: error.rawValue, message: "\(error)")
        actions.append(.send(SessionFrame(.goaway(goaway))))
        end(.failed(error), into: &actions)
    }

    /// Everything that waits gets its last word.
    mutating func end(_ reason: SessionEnd, into actions: inout [SessionAction]) {
        guard end == nil else { return }
        end = reason
        for id in connections.keys {
            remove(id, requests: .sessionEnded(reason), into: &actions) { phase in
                switch phase {
                case .opening: .openFailed(id, .sessionEnded(reason))
                case .offered, .open: .connectionClosed(id, .sessionEnded(reason))
                case .closing, .abandoned: nil
                }
            }
        }
        actions.append(.ended(reason))
    }

    // MARK: Connections

    /// Asks for a connection. Exactly one of `openSucceeded` and `openFailed` follows.
    package mutating func openConnection(
        _ opening: SessionOpening,
        into actions: inout [SessionAction]
    ) throws(SessionSendError) -> SessionConnectionID {
        guard takesConnections else { throw .sessionEnding }
        try check(.connectionsPerSession, connections.count + 1, agreed.connectionsPerSession)
        // The package id and the caller are bounded with the rest of the map.
        guard opening.map.encodedMetadata.count <= SessionWire.metadataBytes else { throw .metadataTooLong }
        let first: UInt32 = role == .client ? 1 : 2
        let (next, overflow) = lastOurs.rawValue.addingReportingOverflow(lastOurs == .session ? first : 2)
        guard !overflow else { throw .sessionEnding }
        lastOurs = SessionConnectionID(next)
        connections.insert(SessionConnection(phase: .opening), for: lastOurs)
        awaitedCount += 1
        idleSince = nil
        actions.append(.send(SessionFrame(.open(opening), connection: lastOurs)))
        return lastOurs
    }

    /// Accepts what `openReceived` offered.
    /// - Returns: whether the connection is open; not if the peer has closed it meanwhile.
    @discardableResult
    package mutating func accept(_ id: SessionConnectionID, at now: Duration, into actions: inout [SessionAction]) -> Bool {
        guard let index = connections.index(forKey: id) else { return false }
        switch connections.values[index].phase {
        case .offered:
            connections.values[index].phase = .open
            reply(SessionFrame(.opened, connection: id), into: &actions)
            return true
        case .abandoned:
            forget(id, at: now, into: &actions)
            return false
        case .opening, .open, .closing:
            return false
        }
    }

    /// Refuses what `openReceived` offered.
    package mutating func refuse(
        _ id: SessionConnectionID,
        _ refusal: SessionRefusal,
        at now: Duration,
        into actions: inout [SessionAction]
    ) {
        switch connections[id]?.phase {
        case .offered:
            reply(SessionFrame(.refused(refusal), connection: id), into: &actions)
            forget(id, at: now, into: &actions)
        case .abandoned:
            forget(id, at: now, into: &actions)
        case .opening, .open, .closing, nil:
            break
        }
    }

    /// Closes a connection, or gives up the wish for one. Requests that have no answer end at once, both ways; responses
    /// that were handed in still leave before the peer is told.
    package mutating func closeConnection(
        _ id: SessionConnectionID,
        _ closure: SessionClosure = SessionClosure(.completed),
        at now: Duration,
        into actions: inout [SessionAction]
    ) {
        guard let index = connections.index(forKey: id) else { return }
        switch connections.values[index].phase {
        case .opening:
            actions.append(.send(SessionFrame(.close(SessionClosure(.cancelled)), connection: id)))
            actions.append(.openFailed(id, .cancelled))
            forget(id, at: now, into: &actions)
        case .offered:
            refuse(id, SessionRefusal(.appUnavailable), at: now, into: &actions)
        case .open:
            connections.values[index].phase = .closing(closure, until: now + SessionWire.closingInterval)
            closingCount += 1
            for number in connections.values[index].theirs.keys.sorted() {
                switch connections.values[index].theirs[number] {
                case .awaitingResponse, .receiving: dropTheirs(SessionRequestID(connection: id, number: number), into: &actions)
                case .sending, .rejecting, nil: break
                }
            }
            // If the peer is not told at once, it is at least not to wait, nor hold its budget, for what will not come.
            let isLingering = !connections.values[index].theirs.isEmpty
            for number in connections.values[index].ours.keys.sorted() {
                let request = SessionRequestID(connection: id, number: number)
                if isLingering { sendCancel(request, into: &actions) }
                dropOurs(request, .connectionClosed(closure), into: &actions)
            }
            requestGrants(into: &actions)
            finishClosing(id, at: now, into: &actions)
        case .closing, .abandoned:
            break
        }
    }

    /// Tells the peer that a connection is closed once nothing is left to be sent on it.
    mutating func finishClosing(_ id: SessionConnectionID, at now: Duration, into actions: inout [SessionAction]) {
        guard closingCount > 0, let index = connections.index(forKey: id),
            case .closing(let closure, let until) = connections.values[index].phase,
            connections.values[index].theirs.isEmpty || now >= until
        else { return }
        actions.append(.send(SessionFrame(.close(closure), connection: id)))
        remove(id, requests: .connectionClosed(closure), into: &actions)
        connectionWasRemoved(at: now, into: &actions)
    }

    // MARK: Requests

    /// Sends a request. Exactly one of `responseReceived` and `requestFailed` follows.
    package mutating func sendRequest(
        _ message: ByteBuffer,
        on id: SessionConnectionID,
        timeLeft: Duration? = nil,
        into actions: inout [SessionAction]
    ) throws(SessionSendError) -> SessionRequestID {
        guard let index = connections.index(forKey: id), connections.values[index].phase == .open else { throw .notOpen }
        try check(.messageBytes, message.readableBytes, agreed.messageBytes)
        try check(.requestsPerConnection, connections.values[index].ours.count + 1, agreed.requestsPerConnection)
        try check(.requestsPerSession, awaitedCount + 1, agreed.requestsPerSession)
        let request = SessionRequestID(connection: id, number: connections.values[index].nextNumber())
        awaitedCount += 1
        let (content, body) = Self.content(of: message)
        transmit(SessionFrame(.request(content, timeLeft: timeLeft), request), body, isOurs: true, at: index, into: &actions)
        return request
    }

    /// Takes back a request; if it is not finished, `requestFailed` says that it was cancelled.
    package mutating func cancelRequest(_ request: SessionRequestID, into actions: inout [SessionAction]) {
        guard connections[request.connection]?.ours[request.number] != nil else { return }
        sendCancel(request, into: &actions)
        dropOurs(request, .cancelled, into: &actions)
        requestGrants(into: &actions)
    }

    /// Answers a request of the peer.
    /// - Throws: that the message is too large; the request then still waits for `respond` or `fail`.
    package mutating func respond(
        to request: SessionRequestID,
        _ message: ByteBuffer,
        at now: Duration,
        into actions: inout [SessionAction]
    ) throws(SessionSendError) -> SessionResponseProgress {
        latest = now
        guard let index = indexAwaitingResponse(request) else { return .dropped }
        try check(.messageBytes, message.readableBytes, agreed.messageBytes)
        let (content, body) = Self.content(of: message)
        return transmit(SessionFrame(.response(content), request), body, isOurs: false, at: index, into: &actions)
    }

    /// Says that there is no answer.
    @discardableResult
    package mutating func failRequest(
        _ request: SessionRequestID,
        _ failure: SessionFailure,
        into actions: inout [SessionAction]
    ) -> SessionResponseProgress {
        guard let index = indexAwaitingResponse(request) else { return .dropped }
        // The peer can provoke it at will, like a `pong`.
        repliesSent += 1
        return transmit(SessionFrame(.error(failure), request), nil, isOurs: false, at: index, into: &actions)
    }

    /// The app has taken a message, or it was dropped. Once for each receipt, also after the connection or the session ended.
    package mutating func consumed(_ receipt: SessionReceipt, into actions: inout [SessionAction]) {
        if let index = connections.index(forKey: receipt.connection) {
            credit(receipt.windowBytes, at: index, into: &actions)
        }
        if receipt.assemblyBytes > 0 {
            releaseAssembly(receipt.assemblyBytes, of: receipt.kind, into: &actions)
            requestGrants(into: &actions)
        }
    }

    /// All that was sent while `repliesSent` had this value has been written to the stream. Without this, answers count as
    /// piling up.
    package mutating func flushed(repliesUpTo count: UInt64) {
        repliesFlushed = max(repliesFlushed, min(count, repliesSent))
    }
}
