// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension SessionStateMachine {
    /// Call this when bytes arrive from the peer, even a part of a frame.
    package mutating func receivedBytes(at now: Duration) {
        lastHeard = now
        latest = now
        unansweredPings = 0
        probeDeadline = nil
    }

    /// Sends a ping with a short deadline. Call this when a newer session with the same peer exists, because this session may use a network
    /// that is gone.
    package mutating func probe(at now: Duration, into actions: inout [SessionAction]) {
        guard end == nil, continuity.reads, probeDeadline == nil else { return }
        probeDeadline = now + SessionWire.probeInterval
        ping(into: &actions)
    }

    private mutating func ping(into actions: inout [SessionAction]) {
        pingValue += 1
        send(SessionFrame(.ping(pingValue)), into: &actions)
    }

    private var pingInterval: Duration { awaitedCount > 0 ? timing.busyInterval : timing.quietInterval }

    private var nextPing: Duration { (unansweredPings == 0 ? lastHeard : lastPing) + pingInterval }

    private var closingDeadlines: [(id: SessionConnectionID, until: Duration)] {
        guard closingCount > 0 else { return [] }
        return connections.all.compactMap { (id, connection) in
            if case .closing(_, let until) = connection.phase { (id, until) } else { nil }
        }
    }

    /// The time of the next `handleDeadlines` call; check it after every input. `nil` once the session has ended.
    package var nextDeadline: Duration? {
        guard end == nil else { return nil }
        if let waitsUntil = continuity.waitsUntil { return waitsUntil }
        var next = nextPing
        if let reportDeadline = continuity.reportDeadline { next = min(next, reportDeadline) }
        if let probeDeadline { next = min(next, probeDeadline) }
        if let idleSince { next = min(next, idleSince + timing.idleInterval) }
        if assemblingCount > 0 { next = min(next, bodyDeadline) }
        if ungrantedAnswers > 0 { next = min(next, grantDeadline) }
        if let closing = closingDeadlines.map(\.until).min() { next = min(next, closing) }
        return next
    }

    /// Handles all deadlines that have passed.
    package mutating func handleDeadlines(at now: Duration, into actions: inout [SessionAction]) {
        guard end == nil else { return }
        latest = now
        if let waitsUntil = continuity.waitsUntil {
            if now >= waitsUntil { end(.connectionLost, into: &actions) }
            return
        }
        if let reportDeadline = continuity.reportDeadline, now >= reportDeadline {
            actions.append(.send(SessionFrame(.ack(continuity.report()))))
        }
        if let idleSince, now >= idleSince + timing.idleInterval {
            sendLast(SessionGoAway(lastConnection: lastTheirs), into: &actions)
            return end(.idle, into: &actions)
        }
        if let probeDeadline, now >= probeDeadline { return streamIsSilent(at: now, into: &actions) }
        if assemblingCount > 0, now >= bodyDeadline {
            return fail(.bodyStalled, into: &actions)
        }
        if ungrantedAnswers > 0, now >= grantDeadline {
            return fail(.answersStalled, into: &actions)
        }
        for (id, until) in closingDeadlines.sorted(by: { $0.id < $1.id }) where now >= until {
            finishClosing(id, at: now, into: &actions)
        }
        guard end == nil, now >= nextPing else { return }
        guard unansweredPings < SessionWire.unansweredPings else { return streamIsSilent(at: now, into: &actions) }
        unansweredPings += 1
        lastPing = now
        ping(into: &actions)
    }
}
