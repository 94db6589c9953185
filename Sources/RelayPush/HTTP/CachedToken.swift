// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOHTTP1
import RelayProtocol

/// The token of one credential. It is made when first needed, shared by all wakes, and replaced before it expires. Concurrent callers wait for
/// one request.
actor CachedToken {
    /// How long a token is used that the other nodes do not know, before they are told of it, in milliseconds.
    private static let unsharedTime: Int64 = 60_000
    /// How much later than now a token of another node may be made, in milliseconds. Clocks differ by less.
    private static let largestOffset: Int64 = 60_000

    /// The age from which a rejected token is dropped, in milliseconds. A younger token is kept, because a new one would be rejected too.
    private let minimumAge: Int64
    /// `nil` if the relay has one node.
    private let shared: (any SharedToken)?
    private let make: @Sendable () async throws(PushOutcomeError) -> ProviderToken
    private let now: @Sendable () -> Milliseconds
    private var token: ProviderToken?
    /// Until when the token is used as it is.
    private var end: Milliseconds = 0
    /// The last token that the provider has rejected.
    private var refused: Secret<String>?
    private var pending: Task<Result<ProviderToken, PushOutcomeError>, Never>?

    init(
        minimumAge: Int64 = 0,
        shared: (any SharedToken)?,
        now: @escaping @Sendable () -> Milliseconds,
        make: @escaping @Sendable () async throws(PushOutcomeError) -> ProviderToken
    ) {
        self.minimumAge = minimumAge
        self.shared = shared
        self.now = now
        self.make = make
    }

    func current() async throws(PushOutcomeError) -> String {
        if let token, now() < end { return token.text.exposed }
        return try await renewed().text.exposed
    }

    /// Drops a token that the provider rejected, so that the next caller gets a new one. Further rejections of the old token do not drop
    /// the new one.
    func rejected(_ text: String) {
        guard let token, token.text.exposed == text else { return }
        guard now().count - token.made.count >= minimumAge || isOfWrongClock(token) else { return }
        refused = token.text
        self.token = nil
    }

    private func renewed() async throws(PushOutcomeError) -> ProviderToken {
        let task: Task<Result<ProviderToken, PushOutcomeError>, Never>
        if let pending {
            task = pending
        } else {
            task = Task {  // Owner: those who need the token wait for it; its requests have a timeout
                do throws(PushOutcomeError) {
                    return .success(try await renew())
                } catch {
                    token = nil
                    return .failure(error)
                }
            }
            pending = task
        }
        let result = await task.value
        if pending == task { pending = nil }
        return try result.get()
    }

    private func renew() async throws(PushOutcomeError) -> ProviderToken {
        let (new, isShared) = try await agree()
        token = new
        end = isShared ? new.renewal : min(new.renewal, Milliseconds(clamping: now().count + Self.unsharedTime))
        return new
    }

    /// The token of all nodes. While their store is away, this node uses one of its own.
    private func agree() async throws(PushOutcomeError) -> (ProviderToken, isShared: Bool) {
        guard let shared else { return (try await own(), true) }
        guard let found = try? await shared.stored() else { return (try await own(), false) }
        if let token = found.token, isUsable(token) { return (token, true) }
        let new = try await own()
        guard let agreed = try? await shared.replace(found.version, by: new) else { return (new, false) }
        return (agreed, true)
    }

    private func own() async throws(PushOutcomeError) -> ProviderToken {
        if let token, isUsable(token) { return token }
        return try await make()
    }

    private func isUsable(_ token: ProviderToken) -> Bool { now() < token.renewal && token.text != refused && !isOfWrongClock(token) }

    /// Providers take no token of a later time. The clock of the node that has made it was wrong.
    private func isOfWrongClock(_ token: ProviderToken) -> Bool { token.made.count > now().count + Self.largestOffset }
}

extension CachedToken {
    /// Sends a wake with the current token, and drops the token if the provider rejects it.
    /// - Parameter failureScope: The scope of a failure without an answer.
    func send(
        failureScope: PushScope = .credential,
        _ attempt: @Sendable (String) async throws(ProviderClient.Failure) -> PushOutcome
    ) async -> PushOutcome {
        let token: String
        do throws(PushOutcomeError) { token = try await current() } catch { return error.outcome }
        do throws(ProviderClient.Failure) {
            let outcome = try await attempt(token)
            if case .credentialRejected = outcome { rejected(token) }
            return outcome
        } catch {
            return .failed(scope: failureScope, reason: error.description)
        }
    }
}

/// A wake was not sent, because no token was available.
struct PushOutcomeError: Error {
    let outcome: PushOutcome
}

extension CachedToken {
    private struct Reply: Decodable {
        var accessToken: String
        /// In seconds.
        var expiresIn: Int64?

        enum CodingKeys: String, CodingKey {
            case accessToken = "access_token"
            case expiresIn = "expires_in"
        }
    }

    /// Requests an access token from a token endpoint (RFC 6749 §5).
    /// - Parameters:
    ///   - form: The body, URL-encoded.
    ///   - margin: How long before its expiry a token is replaced, in milliseconds.
    static func request(
        _ form: String,
        at address: some CustomStringConvertible,
        _ client: ProviderClient,
        _ now: Milliseconds,
        margin: Int64
    ) async throws(PushOutcomeError) -> ProviderToken {
        let reply: ProviderClient.Reply
        do throws(ProviderClient.Failure) {
            reply = try await client.post(
                "\(address)",
                headers: ["Content-Type": "application/x-www-form-urlencoded"],
                body: Array(form.utf8)
            )
        } catch {
            throw PushOutcomeError(outcome: .failed(reason: "the token endpoint cannot be reached"))
        }
        switch reply.status {
        case 200:
            guard let decoded = try? JSONDecoder().decode(Reply.self, from: Data(reply.body)), !decoded.accessToken.isEmpty else {
                throw PushOutcomeError(outcome: .failed(reason: "the token endpoint's answer has no access token"))
            }
            // The default is one hour, the maximum one day.
            let lifetime = min(max(decoded.expiresIn ?? 3_600, 0), 86_400) * 1_000
            let renewal = Milliseconds(clamping: now.count + max(0, lifetime - margin))
            return ProviderToken(text: Secret(decoded.accessToken), made: now, renewal: renewal)
        default: throw PushOutcomeError(outcome: PushRetryTable.outcome(of: reply.summary(now: now), from: .tokenEndpoint))
        }
    }
}
