// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
package import RelayProtocol

/// Checks access tokens of the issuers the relay trusts.
package actor TokenVerifier {
    private let rules: [String: TokenRules]
    private let now: @Sendable () -> Milliseconds
    private let logger: Logger
    private var caches: [String: KeyCache] = [:]
    private let logins = Logins()
    /// The request to an issuer that is under way: all tokens of the issuer wait for the one.
    private var requests: [String: Task<Void, Never>] = [:]

    /// - Parameter now: the relay's clock.
    package init(issuers: [TrustedIssuer], now: @escaping @Sendable () -> Milliseconds, logger: Logger) {
        var rules: [String: TokenRules] = [:]
        for issuer in issuers {
            for url in issuer.urls where rules[url] == nil { rules[url] = TokenRules(issuer: issuer) }
        }
        self.rules = rules
        self.now = now
        self.logger = logger
    }

    /// - Parameter key: the identity key of the endpoint that shows the token, which a bound token must be bound to.
    package nonisolated func verify(_ token: Secret<String>, key: SigningPublicKey) async throws(TokenError) -> VerifiedToken {
        let parsed: SignedJSON
        let claims: TokenClaims
        do throws(SignedJSONError) {
            parsed = try SignedJSON(parsing: token.exposed)
            claims = try parsed.claims(TokenClaims.self)
        } catch {
            throw .malformed
        }
        guard let algorithm = TokenAlgorithm(rawValue: parsed.header.alg) else { throw .algorithm }
        // Not yet to be believed: it only says whose keys to try.
        guard let issuer = claims.text("iss"), let rules = rules[issuer] else { throw .unknownIssuer }
        try rules.checkType(parsed.header)
        let keys = try await keys(of: rules.issuer, id: parsed.header.kid, algorithm: algorithm)
        guard keys.contains(where: { $0.isValid(parsed.signature, for: parsed.signed, by: algorithm) }) else { throw .signature }
        let verified = try rules.check(claims, key: key, now: now())
        if let login = verified.login, logins.isWithdrawn(login) { throw .withdrawn }
        return verified
    }

    /// Takes no more tokens of a login, and tells those who live by it.
    /// - Parameters:
    ///   - issuer: the key of the trusted issuer.
    ///   - until: when the last of its tokens ends.
    package nonisolated func withdraw(session: String, of issuer: String, until: Milliseconds) {
        logins.withdraw(Login(issuer: issuer, session: session), until: until, now: now())
    }

    private func keys(of issuer: TrustedIssuer, id: String?, algorithm: TokenAlgorithm) async throws(TokenError) -> [TokenKey] {
        // A request that was already under way may have been answered before the issuer had the key: a second one is ours.
        for _ in 0..<3 {
            switch caches[issuer.key, default: KeyCache()].answer(id: id, algorithm: algorithm, now: now()) {
            case .found(let keys): return keys
            case .unknown:
                guard let request = requests[issuer.key] else { throw .unknownKey }
                await request.value
            case .unavailable:
                guard let request = requests[issuer.key] else { throw .issuerUnavailable }
                await request.value
            case .fetch:
                await request(issuer).value
            }
        }
        throw .unknownKey
    }

    private func request(_ issuer: TrustedIssuer) -> Task<Void, Never> {
        if let request = requests[issuer.key] { return request }
        caches[issuer.key, default: KeyCache()].began(at: now())
        let request = Task {
            let result: Result<FetchedKeys, any Error>
            do { result = .success(try await issuer.keys()) } catch { result = .failure(error) }
            finish(issuer, result)
        }
        requests[issuer.key] = request
        return request
    }

    private func finish(_ issuer: TrustedIssuer, _ result: Result<FetchedKeys, any Error>) {
        requests[issuer.key] = nil
        switch result {
        case .success(let fetched):
            caches[issuer.key, default: KeyCache()].succeeded(fetched, at: now())
            logger.debug("read the keys of an issuer", metadata: ["issuer": "\(issuer.key)", "keys": "\(fetched.keys.keys.count)"])
        case .failure(let error):
            caches[issuer.key, default: KeyCache()].failed(at: now())
            // Only the kind: an error's text may quote what was received.
            logger.warning("cannot read the keys of an issuer", metadata: ["issuer": "\(issuer.key)", "error": "\(type(of: error))"])
        }
    }
}

extension TokenVerifier: TokenVerifying {
    package nonisolated func verify(
        token: String,
        endpointKey: SigningPublicKey,
        completion: @escaping @Sendable (Result<AcceptedToken, TokenRefusal>) -> Void
    ) {
        Task {
            do throws(TokenError) {
                let token = try await verify(Secret(token), key: endpointKey)
                let accepted = AcceptedToken(
                    identity: token.identity,
                    mayMakeAccount: token.mayMakeAccount,
                    expires: token.expires,
                    scopes: token.allowed,
                    login: token.login,
                    inviter: token.inviter
                )
                completion(.success(accepted))
            } catch {
                completion(.failure(TokenRefusal(code: error.code, message: error.message)))
            }
        }
    }
    package nonisolated func follow(_ login: Login, withdrawn: @escaping @Sendable () -> Void) -> LoginFollower {
        logins.follow(login, withdrawn: withdrawn)
    }
}
