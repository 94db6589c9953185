// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
package import RelayProtocol

/// Verifies access tokens of the issuers that the relay trusts.
package actor TokenVerifier {
    private let rules: [String: TokenRules]
    private let now: @Sendable () -> Milliseconds
    private let logger: Logger
    private var caches: [String: KeyCache] = [:]
    private let logins = LoginRegistry()
    /// The running request of each issuer. All tokens of the issuer wait for it.
    private var requests: [String: Task<Void, Never>] = [:]
    /// The issuer that is asked about tokens that name none.
    private let opaque: TokenRules?
    private var introspections = IntrospectionCache()
    /// The running question about each token.
    private var questions: [Digest256: Task<IntrospectionCache.Entry?, Never>] = [:]

    /// - Parameter now: The relay's clock.
    package init(issuers: [TrustedIssuer], now: @escaping @Sendable () -> Milliseconds, logger: Logger) {
        var rules: [String: TokenRules] = [:]
        for issuer in issuers {
            for url in issuer.urls where rules[url] == nil { rules[url] = TokenRules(issuer: issuer) }
        }
        self.rules = rules
        self.opaque = issuers.first { if case .introspection = $0.check { true } else { false } }.map { TokenRules(issuer: $0) }
        self.now = now
        self.logger = logger
    }

    /// - Parameter key: The identity key of the endpoint that presents the token. A bound token must be bound to this key. `nil` for the
    ///   operator, who presents tokens of others.
    package nonisolated func verify(_ token: Secret<String>, key: SigningPublicKey?) async throws(TokenError) -> VerifiedToken {
        let parsed = try? SignedJSON(parsing: token.exposed)
        // The claim is not verified yet; it only selects the issuer that verifies the token.
        let named = parsed.flatMap { try? $0.claims(TokenClaims.self) }?.text("iss").flatMap { rules[$0] }
        let verified: VerifiedToken
        if let rules = named ?? (parsed == nil ? opaque : nil), case .introspection(let ask) = rules.issuer.check {
            verified = try await introspect(token, by: rules, ask, key: key)
        } else {
            verified = try await verify(signed: token, key: key)
        }
        if let login = verified.login, logins.isRevoked(login) { throw .revoked }
        if logins.isRevoked(Login(token: token.exposed)) { throw .revoked }
        return verified
    }

    private nonisolated func verify(signed token: Secret<String>, key: SigningPublicKey?) async throws(TokenError) -> VerifiedToken {
        let parsed: SignedJSON
        let claims: TokenClaims
        do throws(SignedJSONError) {
            parsed = try SignedJSON(parsing: token.exposed)
            claims = try parsed.claims(TokenClaims.self)
        } catch {
            throw .malformed
        }
        guard let algorithm = TokenAlgorithm(rawValue: parsed.header.alg) else { throw .algorithm }
        guard let issuer = claims.text("iss"), let rules = rules[issuer] else { throw .unknownIssuer }
        try rules.checkType(parsed.header)
        let keys = try await keys(of: rules.issuer, id: parsed.header.kid, algorithm: algorithm)
        guard keys.contains(where: { $0.isValid(parsed.signature, for: parsed.signed, by: algorithm) }) else { throw .signature }
        return try rules.check(claims, key: key, now: now())
    }

    private nonisolated func introspect(
        _ token: Secret<String>,
        by rules: TokenRules,
        _ ask: @escaping IntrospectionSource,
        key: SigningPublicKey?
    ) async throws(TokenError) -> VerifiedToken {
        guard (1...SignedJSON.maximumBytes).contains(token.exposed.utf8.count),
            token.exposed.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw .malformed
        }
        let entry = try await answer(about: token, of: rules.issuer, ask)
        guard let claims = entry.claims else { throw .revoked }
        // An issuer that names itself has to be the one that was asked.
        if let issuer = claims.text("iss"), !rules.issuer.urls.contains(issuer) { throw .unknownIssuer }
        var verified = try rules.check(claims, key: key, now: now())
        verified.recheck = Milliseconds(clamping: entry.askedAt.count + rules.issuer.recheck.count)
        return verified
    }

    /// How many tokens are asked about at a time: endpoints that are not known yet can make the relay ask.
    static let maximumQuestions = 64

    private func answer(
        about token: Secret<String>,
        of issuer: TrustedIssuer,
        _ ask: @escaping IntrospectionSource
    ) async throws(TokenError) -> IntrospectionCache.Entry {
        let digest = Digest256(hashing: Array("\(issuer.key) \(token.exposed)".utf8))
        if let known = introspections.entry(digest, now: now()) { return known }
        if questions[digest] == nil {
            guard questions.count < Self.maximumQuestions else { throw .issuerUnavailable }
            questions[digest] = Task {
                let time = now()
                let result: Result<IntrospectionAnswer, any Error>
                do { result = .success(try await ask(token)) } catch { result = .failure(error) }
                questions[digest] = nil
                switch result {
                case .success(let answer):
                    let entry = IntrospectionCache.Entry(
                        claims: answer.claims,
                        askedAt: time,
                        // Shorter than the interval, so that a due check asks the issuer and finds no cached answer.
                        life: issuer.recheck.count / 6 * 5
                    )
                    introspections.insert(entry, for: digest)
                    return entry
                case .failure(let error):
                    logger.warning(
                        "cannot ask an issuer about a token",
                        metadata: ["issuer": "\(issuer.key)", "error": "\(Self.kind(error))"]
                    )
                    return nil
                }
            }
        }
        guard let entry = await questions[digest]?.value else { throw .issuerUnavailable }
        return entry
    }

    /// What is logged of an error: another error's text may quote the response.
    private static func kind(_ error: any Error) -> String {
        (error as? IssuerHTTPClient.Failure).map { "\($0)" } ?? "\(type(of: error))"
    }

    /// Rejects all tokens of a login from now on, and notifies the channels that depend on it.
    /// - Parameters:
    ///   - issuer: The key of the trusted issuer.
    ///   - until: When the last of its tokens expires.
    package nonisolated func revoke(session: String, of issuer: String, until: Milliseconds) {
        logins.revoke(Login(issuer: issuer, session: session), until: until, now: now())
    }

    /// Rejects a single token from now on, and notifies the channels that depend on it.
    /// - Parameter until: When it expires.
    package nonisolated func revoke(_ token: Login, until: Milliseconds) {
        logins.revoke(token, until: until, now: now())
    }

    private func keys(of issuer: TrustedIssuer, id: String?, algorithm: TokenAlgorithm) async throws(TokenError) -> [TokenKey] {
        // A request that is already running may have been answered before the issuer had the key. A second request then finds it.
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
            do {
                guard case .keys(let source) = issuer.check else { throw TokenError.unknownKey }
                result = .success(try await source())
            } catch {
                result = .failure(error)
            }
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
            logger.warning("cannot read the keys of an issuer", metadata: ["issuer": "\(issuer.key)", "error": "\(Self.kind(error))"])
        }
    }
}

extension TokenVerifier: TokenVerifying {
    package nonisolated func verify(
        token: String,
        endpointKey: SigningPublicKey,
        completion: @escaping @Sendable (Result<AcceptedToken, TokenRejection>) -> Void
    ) {
        Task {
            do throws(TokenError) {
                let single = Login(token: token)
                let token = try await verify(Secret(token), key: endpointKey)
                let accepted = AcceptedToken(
                    identity: token.identity,
                    mayMakeAccount: token.mayMakeAccount,
                    expires: token.expires,
                    scopes: token.allowed,
                    login: token.login,
                    inviter: token.inviter,
                    recheck: token.recheck,
                    single: single,
                    authenticated: token.authenticated
                )
                completion(.success(accepted))
            } catch {
                completion(.failure(TokenRejection(code: error.code, message: error.message)))
            }
        }
    }

    package nonisolated func follow(_ login: Login, revoked: @escaping @Sendable () -> Void) -> RevocationObserver {
        logins.follow(login, revoked: revoked)
    }
}
