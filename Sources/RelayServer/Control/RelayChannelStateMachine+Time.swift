// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

extension RelayChannelStateMachine {
    /// When to call `handleDeadlines` next.
    package var deadline: Milliseconds? {
        switch state {
        case .new, .closed: nil
        case .greeting, .verifying, .connecting: greetingEnds
        case .open(let open): min(pingDue, deadDue, token.isWarned ? token.ends : token.warningDue, recheckDue(open) ?? token.ends)
        }
    }

    /// Does what is due.
    /// - Parameter hasUnread: whether the socket has unread bytes. Then the relay is late, because of many connections at once or a
    ///   suspended machine; the endpoint is not silent.
    package mutating func handleDeadlines(_ now: Moment, hasUnread: Bool = false) -> [Action] {
        switch state {
        case .new, .closed: return []
        case .greeting:
            guard now.uptime >= greetingEnds else { return [] }
            if hasUnread, !isLate {
                // Only once: a client that sends without end must not extend its time without end.
                isLate = true
                greetingEnds = now.uptime + helloTime
                return []
            }
            return close(code: 1008, reason: "no hello within \(settings.limits[.helloSeconds]) s")
        case .verifying, .connecting:
            guard now.uptime >= greetingEnds else { return [] }
            let isToken = if case .verifying = state { true } else { false }
            let rejected = RelayMessage.Rejected(
                code: isToken ? .issuerUnavailable : .unavailable,
                message: isToken ? "the token could not be checked in time" : "the relay is busy",
                retry: true
            )
            return reject(rejected, now)
        case .open(let open):
            if hasUnread { lastReceived = now.uptime }
            return openTimePassed(open, now)
        }
    }

    private mutating func openTimePassed(_ open: Open, _ now: Moment) -> [Action] {
        if now.uptime >= token.ends { return invalidate(.tokenExpired, "the token has expired", now) }
        if now.uptime >= deadDue { return close(code: 1001, reason: "silent for too long", isSilent: true) }
        var actions: [Action] = []
        if !token.isWarned, now.uptime >= token.warningDue {
            token.isWarned = true
            actions += say(.authExpiring(RelayMessage.AuthExpiring(expires: token.expires)), now)
        }
        if now.uptime >= pingDue {
            pinged = now.uptime
            sent = now.uptime
            actions.append(.ping)
        }
        if let text = token.recheck?.text, let due = recheckDue(open), now.uptime >= due {
            var open = open
            open.check = .recheck
            state = .open(open)
            actions.append(.checkToken(text, endpointKey: open.endpointKey))
        }
        return actions
    }

    /// One check at a time.
    private func recheckDue(_ open: Open) -> Milliseconds? { open.check == nil ? token.recheck?.due : nil }

    /// The silence of either side causes a ping, because the endpoint also gives up a silent relay.
    private var pingDue: Milliseconds { max(min(lastReceived, sent), pinged) + pingAfter }
    private var deadDue: Milliseconds { lastReceived + settings.intervals.dead }
}
