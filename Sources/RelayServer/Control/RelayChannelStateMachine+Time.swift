// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

extension RelayChannelStateMachine {
    /// When `timePassed` is to be called next.
    package var deadline: Milliseconds? {
        switch state {
        case .new, .closed: nil
        case .greeting, .verifying, .connecting: greetingEnds
        case .open: min(pingDue, deadDue, token.isWarned ? token.ends : warningDue)
        }
    }

    /// Does what is due.
    /// - Parameter hasUnread: Something came that nobody has read yet: it is the relay that is late, when all come at once or the machine
    ///   stood still, and not the endpoint that is silent.
    package mutating func timePassed(_ now: Moment, hasUnread: Bool = false) -> [Action] {
        switch state {
        case .new, .closed: return []
        case .greeting:
            guard now.uptime >= greetingEnds else { return [] }
            if hasUnread, !isLate {
                // Once: whoever sends without end never gets to the end of a hello either.
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
        case .open:
            if hasUnread { lastReceived = now.uptime }
            return openTimePassed(now)
        }
    }

    private mutating func openTimePassed(_ now: Moment) -> [Action] {
        if now.uptime >= token.ends {
            let invalidated = RelayMessage.AuthInvalidated(code: .tokenExpired, message: "the token has expired")
            return say(.authInvalidated(invalidated), now) + close(code: 1008, reason: ControlErrorCode.tokenExpired.rawValue)
        }
        if now.uptime >= deadDue { return close(code: 1001, reason: "silent for too long", isSilent: true) }
        var actions: [Action] = []
        if !token.isWarned, now.uptime >= warningDue {
            token.isWarned = true
            actions += say(.authExpiring(RelayMessage.AuthExpiring(expires: token.expires)), now)
        }
        if now.uptime >= pingDue {
            pinged = now.uptime
            sent = now.uptime
            actions.append(.ping)
        }
        return actions
    }

    private var warningDue: Milliseconds { token.ends - Self.expiringWarning }

    /// Either side's silence is a reason: the endpoint gives up a relay that says nothing.
    private var pingDue: Milliseconds { max(min(lastReceived, sent), pinged) + pingAfter }
    private var deadDue: Milliseconds { lastReceived + settings.intervals.dead }
}
