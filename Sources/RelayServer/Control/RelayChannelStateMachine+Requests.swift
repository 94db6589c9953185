// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension RelayChannelStateMachine {
    mutating func receivedRequest(_ message: EndpointMessage, _ open: Open, _ now: Moment) -> [Action] {
        if case .authRefresh(let refresh) = message { return receivedRefresh(refresh, open, now) }
        if let scope = message.scope, !open.scopes.contains(scope) {
            // What is no request is not answered.
            guard let ref = message.ref else { return [] }
            let refusal = TokenRefusal(missing: scope)
            return say(.failure(RelayMessage.Failure(ref: ref, code: refusal.code, message: refusal.message)), now)
        }
        if let limit = message.rate, let ref = message.ref,
            let wait = take(limit, open.endpoint, now.uptime)
        {
            return tooMany(ref: ref, limit: limit, wait: wait, now)
        }
        return [.forward(message, open.channel)]
    }

    private mutating func tooMany(ref: RequestRef, limit: Limit, wait: Milliseconds, _ now: Moment) -> [Action] {
        let allowed = settings.limits[limit]
        let exceeded = LimitExceeded(limit: limit, allowed: allowed, requested: allowed &+ 1)
        let failure = RelayMessage.Failure(
            ref: ref,
            code: .tooManyRequests,
            message: "no more than \(allowed) a second, ten times that at once",
            limit: ExceededLimit(exceeded),
            retryAfter: wait
        )
        return say(.failure(failure), now)
    }

    private mutating func receivedRefresh(_ refresh: EndpointMessage.AuthRefresh, _ open: Open, _ now: Moment) -> [Action] {
        guard open.refreshing == nil else {
            let failure = RelayMessage.Failure(
                ref: refresh.ref,
                code: .tooManyRequests,
                message: "another token is being checked",
                retryAfter: 1_000
            )
            return say(.failure(failure), now)
        }
        var open = open
        open.refreshing = refresh.ref
        state = .open(open)
        return [.checkToken(refresh.token, endpointKey: open.endpointKey)]
    }

    /// A refused token changes nothing: the channel lives as long as its old one.
    mutating func refreshed(_ result: Result<AcceptedToken, TokenRefusal>, _ open: Open, _ now: Moment) -> [Action] {
        guard let ref = open.refreshing else { return [] }
        var open = open
        open.refreshing = nil
        let answer: RelayMessage
        var following: [Action] = []
        switch result {
        case .success(let token) where token.identity == open.identity:
            open.scopes = token.scopes
            self.token = TokenLife(expires: token.expires, ends: now.uptime + (token.expires - now.time))
            answer = .ok(RelayMessage.OK(ref: ref))
            following = follow(token.login)
        case .success:
            answer = .failure(RelayMessage.Failure(ref: ref, code: .wrongAccount, message: "the token belongs to another account"))
        case .failure(let refusal):
            answer = .failure(RelayMessage.Failure(ref: ref, code: refusal.code, message: refusal.message))
        }
        state = .open(open)
        return say(answer, now) + following + timePassed(now)
    }
}

extension EndpointMessage {
    /// The limit that bounds how often it is asked. Everything that watchers hear of counts as publishing.
    var rate: Limit? {
        switch self {
        case .commandSend, .commandCancel: .commandsPerSecond
        case .publish, .unpublish, .endpointUpdate, .endpointApprove, .endpointRevoke, .notificationsRegister: .publishesPerSecond
        case .watch: .watchesPerSecond
        case .tunnelOpen: .tunnelOpensPerSecond
        case .hello, .leaving, .unwatch, .commandReceived, .commandResult, .commandAcknowledge, .tunnelDecline, .authRefresh: nil
        }
    }
}
