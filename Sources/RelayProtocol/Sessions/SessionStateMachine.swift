// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// One side of a session: app service connections with requests in both directions over one byte stream.
///
/// Its owner passes in the app's calls, the decoded frames and the time, and performs the returned actions in order.
/// Messages are opaque. The machine has no clock (`now` is the time since any fixed start) and does no I/O.
///
/// What a peer can make it hold is bounded: for each connection, a window of bytes that the app has not taken; for the
/// session, the assembly budget of announced messages, the connections and requests, and the replies that have not been
/// sent. The app bounds what it hands in itself: `responseFinished` reports when a response has been sent. A session
/// whose peer grants none of its announced responses ends.
///
/// starting → running → (draining →) ended. Settings are the first frame in each direction. A side may open connections
/// before the other's settings arrive; everything else follows `opened`, which the other side sends after its settings.
package struct SessionStateMachine: Sendable {
    /// The side of the TLS connection.
    package enum Role: Hashable, Sendable {
        case client
        case server
    }

    package let role: Role
    let timing: SessionTiming
    let settings: SessionSettings
    /// The settings that apply: the own ones until the peer's arrive.
    var agreed: SessionSettings
    var hasPeerSettings = false
    /// How the session ended; `nil` while it is open.
    package internal(set) var end: SessionEnd?

    var connections = SessionConnectionTable()
    /// The highest connection ids so far. A lower id that is not in the table is closed.
    var lastOutgoing: SessionConnectionID
    var lastTheirs: SessionConnectionID
    /// Whether this side, or the peer, has announced that it accepts no new connections.
    var isDraining = false
    var isPeerDraining = false
    /// The number of connections that the app has closed and that wait for their last responses.
    var closingCount = 0

    /// Incoming large messages.
    var requestAssembly: SessionAssembly
    var responseAssembly: SessionAssembly
    /// The number of bodies that are being received, and the deadline of their next bytes.
    var assemblingCount = 0
    var bodyDeadline = Duration.zero
    /// The number of responses of this side without a grant, and the deadline for a grant or for progress of a granted one.
    var ungrantedAnswers = 0
    var grantDeadline = Duration.zero
    /// Outgoing granted bodies, in round-robin order.
    var granted = RemovableQueue<SessionConnection.BodyKey>()

    /// The number of `open` frames and requests of this side that wait for the peer.
    var awaitedCount = 0
    /// The number of unfinished requests of the peer.
    package internal(set) var unfinishedCount = 0
    /// The latest time that was passed in.
    var latest = Duration.zero
    var lastHeard = Duration.zero
    var idleSince: Duration?
    var unansweredPings = 0
    var lastPing = Duration.zero
    /// The deadline of the answer to a `probe`.
    var probeDeadline: Duration?
    var pingValue: UInt64 = 0

    /// The number of replies to the peer, and how many of them were written to the stream.
    package internal(set) var repliesSent: UInt64 = 0
    var repliesFlushed: UInt64 = 0
    /// How many replies there were when the first frame began to wait.
    var repliesBeforeWait: UInt64 = 0

    var continuity: SessionContinuity
    /// The id that the opener has chosen.
    var peerSession: SessionID?

    /// - Parameter offer: What this side offers of the feature `move`.
    package init(role: Role, limits: Limits = Limits(), timing: SessionTiming = SessionTiming(), offer: MoveOffer = .none) {
        self.role = role
        self.timing = timing
        self.settings = Self.settings(limits, offer)
        self.continuity = SessionContinuity(isOffered: offer != .none)
        self.agreed = settings
        self.requestAssembly = SessionAssembly(limit: limits.assemblyBytesPerPeer)
        self.responseAssembly = SessionAssembly(limit: limits.assemblyBytesPerPeer)
        self.lastOutgoing = SessionConnectionID(0)
        self.lastTheirs = SessionConnectionID(0)
    }

    /// Whether `openConnection` can succeed.
    package var takesConnections: Bool { end == nil && !isDraining && !isPeerDraining }

    /// The number of connections.
    package var connectionCount: Int { connections.count }

    /// Bytes of the peer's messages that the machine accounts for: sent within a window or granted, and not taken by the app.
    package var heldBytes: Int {
        connections.values.reduce(requestAssembly.bytes + responseAssembly.bytes) { $0 + $1.unconsumed }
    }

    // MARK: Lifecycle

    /// Starts the session. Call it once, when the stream is open.
    package mutating func start(at now: Duration, into actions: inout [SessionAction]) {
        lastHeard = now
        latest = now
        idleSince = now + timing.unusedInterval - timing.idleInterval
        send(SessionFrame(.settings(settings)), into: &actions)
    }

    /// Accepts no new connections. The session ends with its last connection.
    package mutating func drain(into actions: inout [SessionAction]) {
        guard end == nil, !isDraining else { return }
        isDraining = true
        send(SessionFrame(.goaway(SessionGoAway(lastConnection: lastTheirs))), into: &actions)
        endIfDrained(into: &actions)
    }

    /// Call this when the byte stream has closed or failed.
    package mutating func connectionLost(into actions: inout [SessionAction]) {
        end(.connectionLost, into: &actions)
    }

    func endsWhenEmpty() -> Bool { isDraining || isPeerDraining }

    mutating func endIfDrained(into actions: inout [SessionAction]) {
        if connections.isEmpty, endsWhenEmpty() { end(.drained, into: &actions) }
    }

    /// Sends the reason to the peer, and ends the session.
    mutating func fail(_ error: SessionError, into actions: inout [SessionAction]) {
        guard end == nil else { return }
        sendLast(SessionGoAway(error, lastConnection: lastTheirs), into: &actions)
        end(.failed(error), into: &actions)
    }

    /// Ends the session, and ends everything that waits.
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
        continuity.end()
        actions.append(.ended(reason))
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
        try check(.requestsPerConnection, connections.values[index].outgoing.count + 1, agreed.requestsPerConnection)
        try check(.requestsPerSession, awaitedCount + 1, agreed.requestsPerSession)
        let request = SessionRequestID(connection: id, number: connections.values[index].nextNumber())
        awaitedCount += 1
        let (content, body) = Self.content(of: message)
        transmit(SessionFrame(.request(content, timeLeft: timeLeft), request), body, isOutgoing: true, at: index, into: &actions)
        return request
    }

    /// Cancels a request. If it is unfinished, `requestFailed` follows.
    package mutating func cancelRequest(_ request: SessionRequestID, into actions: inout [SessionAction]) {
        guard connections[request.connection]?.outgoing[request.number] != nil else { return }
        sendCancel(request, into: &actions)
        dropOurs(request, .cancelled, into: &actions)
        requestGrants(into: &actions)
    }

    /// Responds to a request of the peer.
    /// - Throws: `limitExceeded` if the message is too large; the request then still waits for `respond` or `failRequest`.
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
        return transmit(SessionFrame(.response(content), request), body, isOutgoing: false, at: index, into: &actions)
    }

    /// Answers a request of the peer with an error.
    @discardableResult
    package mutating func failRequest(
        _ request: SessionRequestID,
        _ failure: SessionFailure,
        into actions: inout [SessionAction]
    ) -> SessionResponseProgress {
        guard let index = indexAwaitingResponse(request) else { return .dropped }
        // The peer can cause this frame at will, like a `pong`.
        repliesSent += 1
        return transmit(SessionFrame(.error(failure), request), nil, isOutgoing: false, at: index, into: &actions)
    }

    /// Call this once for each receipt when the app has taken the message, or it was dropped, even after the connection or
    /// session has ended.
    package mutating func consumed(_ receipt: MessageCredit, into actions: inout [SessionAction]) {
        if let index = connections.index(forKey: receipt.connection) {
            credit(receipt.windowBytes, at: index, into: &actions)
        }
        if receipt.assemblyBytes > 0 {
            releaseAssembly(receipt.assemblyBytes, of: receipt.kind, into: &actions)
            requestGrants(into: &actions)
        }
    }

    /// The number of replies that do not wait.
    package var repliesWritten: UInt64 { continuity.holds ? repliesBeforeWait : repliesSent }

    /// Call this when all frames up to this value of `repliesWritten` have been written to the stream. Other replies count as unsent.
    package mutating func flushed(repliesUpTo count: UInt64) {
        repliesFlushed = max(repliesFlushed, min(count, repliesSent))
    }
}
