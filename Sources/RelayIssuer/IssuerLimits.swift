// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import RelayProtocol
import Synchronization

/// The limits that several parts of the issuer share: failed requests of clients, and grants of users. They count in this process only.
final class IssuerLimits: Sendable {
    /// The kinds of grants that are limited for each user and login.
    enum GrantKind: String {
        case tokens, invitations
    }

    /// The limits of one kind of grant.
    private struct GrantLimits {
        private var users: RateLimiter
        private var logins: RateLimiter

        init(perUser: Int, perLogin: Int) {
            users = RateLimiter(perWindow: perUser, capacity: 10_000)
            logins = RateLimiter(perWindow: perLogin, capacity: 10_000)
        }

        /// Counts a grant.
        /// - Parameter login: The requesting login. It has a limit of its own, so that it cannot use up the limit of the user's other
        ///   logins.
        /// - Returns: The owner of the limit that is reached, and the time to wait.
        mutating func add(_ subject: String, login: String?, now: Milliseconds) -> (owner: String, wait: Milliseconds)? {
            if let wait = login.flatMap({ logins.add($0, now: now) }) { return ("for this login", wait) }
            return users.add(subject, now: now).map { ("for this account, all its logins together", $0) }
        }
    }

    private struct State {
        var failures: RateLimiter
        var tokens: GrantLimits
        var invitations: GrantLimits
        /// When ended rows were last deleted from the store.
        var cleaned: Milliseconds
    }

    /// Lets a request count once, although its transaction may run again.
    final class Request: Sendable {
        fileprivate let isCounted = Atomic(false)
    }

    private let store: any IssuerStore
    private let now: @Sendable () -> Milliseconds
    private let state: Mutex<State>

    init(_ settings: Issuer.Settings, store: any IssuerStore, now: @escaping @Sendable () -> Milliseconds) {
        self.store = store
        self.now = now
        let grants = GrantLimits(perUser: settings.grantsPerMinute, perLogin: settings.grantsPerLoginAndMinute)
        self.state = Mutex(
            State(
                failures: RateLimiter(perWindow: settings.failuresPerMinute, capacity: settings.failureAddresses),
                tokens: grants,
                invitations: grants,
                cleaned: now()
            )
        )
    }

    // MARK: Failed requests

    /// Runs a request. Only failures count against its networks. Above the limit, a failed request gets 429 instead of its
    /// error; a valid request is always served. Once in a minute, a request first deletes what has ended in the store.
    func serve<Result>(_ client: ClientNetworks, _ body: () async throws(OAuthError) -> Result) async throws(OAuthError) -> Result {
        await cleanUp()
        do throws(OAuthError) {
            return try await body()
        } catch {
            // A device that polls before its user has decided does not count as a failure.
            guard (400..<500).contains(error.status), error.status != 429, error.code != .authorizationPending else { throw error }
            try countFailure(client)
            throw error
        }
    }

    /// Counts a failure of a client. Throws if there were too many.
    func countFailure(_ client: ClientNetworks) throws(OAuthError) {
        let now = now()
        if let wait = state.withLock({ $0.failures.add(client, now: now) }) {
            var error = OAuthError.later("too many failed requests; wait as Retry-After says", after: wait)
            error.text = PageText("error.tooManyRequests", ["seconds": wait.retryAfterSeconds])
            throw error
        }
    }

    /// If it fails, a later request repeats it.
    private func cleanUp() async {
        let now = now()
        let isDue = state.withLock { state in
            guard abs(now.count - state.cleaned.count) >= 60_000 else { return false }
            state.cleaned = now
            return true
        }
        if isDue { try? await store.count { try $0.forgetEnded(before: now) } }
    }

    // MARK: Grants

    /// Applies the rate limits of grants. They also bound for each user how many used proofs the store keeps.
    /// - Parameters:
    ///   - kind: What is requested.
    ///   - login: The requesting login; `nil` if one begins.
    func rejection(
        of request: Request,
        _ kind: GrantKind,
        subject: String,
        login: String?,
        now: Milliseconds
    ) -> OAuthError? {
        state.withLock { state in
            guard !request.isCounted.load(ordering: .relaxed) else { return nil }
            let excess =
                switch kind {
                case .tokens: state.tokens.add(subject, login: login, now: now)
                case .invitations: state.invitations.add(subject, login: login, now: now)
                }
            if let excess {
                return .later("too many \(kind.rawValue) in a minute \(excess.owner); wait as Retry-After says", after: excess.wait)
            }
            request.isCounted.store(true, ordering: .relaxed)
            return nil
        }
    }
}

extension OAuthError {
    static let usedProof = OAuthError(.invalidDPoPProof, IssuerError.usedProof.description)
}
