// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

extension RelayChannelStateMachine {
    mutating func receivedHello(_ hello: EndpointMessage.Hello, _ now: Moment) -> [Action] {
        do throws(RelayMessage.Rejected) {
            let check = HelloCheck(relay: settings.relay)
            let record = try check.record(of: hello, nonce: nonce, isOwnOrigin: isOwnOrigin(hello.origin))
            state = .verifying(hello, record)
            // Verification may need requests to other hosts, so it gets its own time.
            greetingEnds = now.uptime + helloTime
            return [.checkToken(hello.token, endpointKey: record.payload.identityKey)]
        } catch {
            return reject(error, now)
        }
    }

    /// Handles the verifier's result for the token of the hello, or for a refreshed token.
    package mutating func tokenChecked(_ result: Result<AcceptedToken, TokenRejection>, _ now: Moment) -> [Action] {
        let result = result.flatMap { token in
            token.expires > now.time ? .success(token) : .failure(TokenRejection(code: .tokenExpired, message: "the token has expired"))
        }
        switch (state, result) {
        case (.verifying(let hello, let record), .success(let token)):
            if let scope = EndpointMessage.hello(hello).scope, !token.scopes.contains(scope) {
                let rejection = TokenRejection(missing: scope)
                return reject(RelayMessage.Rejected(code: rejection.code, message: rejection.message, retry: false), now)
            }
            let proved = ProvedHello(
                identity: token.identity,
                mayMakeAccount: token.mayMakeAccount,
                record: record,
                role: hello.role,
                instance: hello.instance,
                tokenExpires: token.expires,
                scopes: token.scopes,
                login: token.login,
                inviter: token.inviter,
                address: address,
                tokenMade: token.made,
                names: token.names,
                origin: hello.origin,
                mayMove: hello.features.contains(ControlFeatures.moved)
            )
            state = .connecting(proved, early: [])
            greetingEnds = now.uptime + helloTime
            return [.connect(proved)] + adopt(token, hello.token, now)
        case (.verifying, .failure(let rejection)):
            let retry = rejection.code != .endpointRevoked
            return reject(RelayMessage.Rejected(code: rejection.code, message: rejection.message, retry: retry), now)
        case (.open(let open), _):
            return checked(result, open, now)
        default:
            return []
        }
    }

    /// Handles the core's answer for the endpoint.
    package mutating func coreAnswered(_ result: Result<AcceptedChannel, RelayMessage.Rejected>, _ now: Moment) -> [Action] {
        switch (state, result) {
        case (.connecting, .success(let accepted)) where isLoginRevoked:
            let actions = reject(RelayMessage.Rejected(code: .tokenRevoked, message: Self.revoked, retry: true), now)
            state = .closed(awaitsCore: false)
            return [.disconnected(accepted.id, isSilent: false)] + actions
        case (.connecting(let hello, let early), .success(let accepted)):
            let record = hello.record.payload
            state = .open(
                Open(
                    channel: accepted.id,
                    identity: hello.identity,
                    endpoint: record.endpointID,
                    endpointKey: record.identityKey,
                    scopes: hello.scopes
                )
            )
            pinged = now.uptime
            return say(settings.welcome(accountName: accepted.accountName, accepted.limits), now) + [.welcomed] + early.map { .send($0) }
                + handleDeadlines(now)
        case (.connecting, .failure(let rejected)):
            let actions = reject(rejected, now)
            state = .closed(awaitsCore: false)
            return actions
        case (.closed(awaitsCore: true), .success(let accepted)):
            // The channel closed before the core accepted it.
            state = .closed(awaitsCore: false)
            return [.disconnected(accepted.id, isSilent: false)]
        default:
            return []
        }
    }

    mutating func reject(_ rejected: RelayMessage.Rejected, _ now: Moment) -> [Action] {
        say(.rejected(rejected), now) + close(code: 1008, reason: rejected.code.rawValue)
    }
}
