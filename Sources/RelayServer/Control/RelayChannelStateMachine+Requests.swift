// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension RelayChannelStateMachine {
    mutating func receivedRequest(_ message: EndpointMessage, _ open: Open, _ now: Moment) -> [Action] {
        if case .authRefresh(let refresh) = message {
            return check(refresh.token, .refresh(refresh.ref, refresh.token), refresh.ref, open, now)
        }
        if let scope = message.scope, !open.scopes.contains(scope) {
            // A message without a request reference gets no answer.
            guard let ref = message.ref else { return [] }
            let rejection = TokenRejection(missing: scope)
            let failure = RelayMessage.Failure(ref: ref, code: rejection.code, message: rejection.message, mayHaveRun: message.mayHaveRun)
            return say(.failure(failure), now)
        }
        if let limit = message.rate, let ref = message.ref,
            let wait = take(limit, open.endpoint, now.uptime)
        {
            return tooMany(message, ref, limit: limit, wait: wait, now)
        }
        if case .identityLink(let link) = message { return check(link.token, .link(link.ref), link.ref, open, now) }
        return [.forward(message, open.channel)]
    }

    private mutating func tooMany(
        _ message: EndpointMessage,
        _ ref: RequestRef,
        limit: Limit,
        wait: Milliseconds,
        _ now: Moment
    ) -> [Action] {
        let allowed = settings.limits[limit]
        let exceeded = LimitExceeded(limit: limit, allowed: allowed, requested: allowed &+ 1)
        let failure = RelayMessage.Failure(
            ref: ref,
            code: .tooManyRequests,
            message: "no more than \(allowed) a second, ten times that at once",
            limit: ExceededLimit(exceeded),
            retryAfter: wait,
            mayHaveRun: message.mayHaveRun
        )
        return say(.failure(failure), now)
    }

    /// Checks a token that a request presents. One at a time.
    private mutating func check(_ token: Secret<String>, _ check: TokenCheck, _ ref: RequestRef, _ open: Open, _ now: Moment) -> [Action] {
        guard open.check == nil else {
            let failure = RelayMessage.Failure(
                ref: ref,
                code: .tooManyRequests,
                message: "another token is being checked",
                retryAfter: 1_000
            )
            return say(.failure(failure), now)
        }
        var open = open
        open.check = check
        state = .open(open)
        return [.checkToken(token, endpointKey: open.endpointKey)]
    }

    mutating func checked(_ result: Result<AcceptedToken, TokenRejection>, _ open: Open, _ now: Moment) -> [Action] {
        var open = open
        let check = open.check
        open.check = nil
        state = .open(open)
        switch check {
        case .refresh(let ref, let text): return refreshed(ref, text, result, open, now)
        case .link(let ref): return linked(ref, result, open, now)
        case .recheck: return rechecked(result, open, now)
        case nil: return []
        }
    }

    /// A rejected token changes nothing: the channel stays open until its current token ends.
    private mutating func refreshed(
        _ ref: RequestRef,
        _ text: Secret<String>,
        _ result: Result<AcceptedToken, TokenRejection>,
        _ open: Open,
        _ now: Moment
    ) -> [Action] {
        let answer: RelayMessage
        var following: [Action] = []
        switch result {
        case .success(let token) where token.identity == open.identity:
            var open = open
            open.scopes = token.scopes
            state = .open(open)
            answer = .ok(RelayMessage.OK(ref: ref))
            following = adopt(token, text, now)
        case .success:
            answer = .failure(RelayMessage.Failure(ref: ref, code: .wrongAccount, message: "the token belongs to another account"))
        case .failure(let rejection):
            answer = .failure(RelayMessage.Failure(ref: ref, code: rejection.code, message: rejection.message))
        }
        return say(answer, now) + following + handleDeadlines(now)
    }

    /// The token belongs to the person at the endpoint only if that person has just signed in, at this endpoint: an older one may be stolen,
    /// and one that is not bound to the endpoint's key may come from another service of the issuer.
    private mutating func linked(_ ref: RequestRef, _ result: Result<AcceptedToken, TokenRejection>, _ open: Open, _ now: Moment)
        -> [Action]
    {
        let failure: RelayMessage.Failure
        switch result {
        case .success(let token) where !token.isBound:
            let message =
                "the issuer did not bind the token to this device's key (DPoP); let the relay's operator link the identity: relayd account link"
            failure = .init(ref: ref, code: .tokenNotBound, message: message)
        case .success(let token):
            if let time = token.authenticated, time <= now.time + Milliseconds(clamping: TokenRules.leeway),
                now.time <= time + Self.freshLogin
            {
                return [.link(token.identity, ref, open.channel)] + handleDeadlines(now)
            }
            let message =
                token.authenticated == nil
                ? "the token does not say when its user signed in (auth_time); let the relay's operator link the identity: relayd account link"
                : "this needs a login of the last five minutes; sign in again"
            failure = .init(ref: ref, code: .loginTooOld, message: message)
        case .failure(let rejection): failure = .init(ref: ref, code: rejection.code, message: rejection.message)
        }
        return say(.failure(failure), now) + handleDeadlines(now)
    }

    /// The issuer was asked again. While it does not answer, the channel lives on, at most until its token's end.
    private mutating func rechecked(_ result: Result<AcceptedToken, TokenRejection>, _ open: Open, _ now: Moment) -> [Action] {
        guard let text = token.recheck?.text else { return [] }
        switch result {
        case .success(let token) where token.identity == open.identity:
            var open = open
            open.scopes = token.scopes
            state = .open(open)
            let isWarned = self.token.isWarned && self.token.expires == token.expires
            let actions = adopt(token, text, now)
            self.token.isWarned = isWarned
            return actions + handleDeadlines(now)
        case .failure(let rejection) where rejection.code == .issuerUnavailable:
            token.recheck?.due = now.uptime + Self.recheckPause
            return handleDeadlines(now)
        case .success: return invalidate(.wrongAccount, "the token now belongs to another identity", now)
        case .failure(let rejection): return invalidate(rejection.code, rejection.message, now)
        }
    }

    /// The token is no longer accepted.
    mutating func invalidate(_ code: ControlErrorCode, _ message: String, _ now: Moment) -> [Action] {
        say(.authInvalidated(RelayMessage.AuthInvalidated(code: code, message: message)), now) + close(code: 1008, reason: code.rawValue)
    }
}

extension EndpointMessage {
    /// The rate limit of a message. Everything that causes discovery events counts as publishing.
    var rate: Limit? {
        switch self {
        case .commandSend, .commandCancel: .commandsPerSecond
        case .publish, .unpublish, .endpointUpdate, .endpointApprove, .endpointRevoke, .notificationsRegister, .identityLink:
            .publishesPerSecond
        case .watch, .mailboxDrain: .watchesPerSecond
        case .tunnelOpen: .tunnelOpensPerSecond
        case .hello, .leaving, .unwatch, .commandReceived, .commandResult, .commandAcknowledge, .tunnelDecline, .tunnelCandidates,
            .authRefresh:
            nil
        }
    }
}
