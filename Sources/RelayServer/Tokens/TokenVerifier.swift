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

    /// - Parameter now: The relay's clock.
    package init(issuers: [TrustedIssuer], now: @escaping @Sendable () -> Milliseconds, logger: Logger) {
        var rules: [String: TokenRules] = [:]
        for issuer in issuers {
            for url in issuer.urls where rules[url] == nil { rules[url] = TokenRules(issuer: issuer) }
        }
        self.rules = rules
        self.now = now
        self.logger = logger
    }

    /// - Parameter key: The identity key of the endpoint that presents the token. A bound token must be bound to this key.
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
        // The claim is not verified yet; it only selects the issuer whose keys are tried.
        guard let issuer = claims.text("iss"), let rules = rules[issuer] else { throw .unknownIssuer }
        try rules.checkType(parsed.header)
        let keys = try await keys(of: rules.issuer, id: parsed.header.kid, algorithm: algorithm)
        guard keys.contains(where: { $0.isValid(parsed.signature, for: parsed.signed, by: algorithm) }) else { throw .signature }
        let verified = try rules.check(claims, key: key, now: now())
        if let login = verified.login, logins.isRevoked(login) { throw .revoked }
        return verified
    }

    /// Rejects all tokens of a login from now on, and notifies the channels that depend on it.
    /// - Parameters:
    ///   - issuer: The key of the trusted issuer.
    ///   - until: When the last of its tokens expires.
    package nonisolated func revoke(session: String, of issuer: String, until: Milliseconds) {
        logins.revoke(Login(issuer: issuer, session: session), until: until, now: now())
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
            // Only the error's type is logged: its text may quote the response.
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
    package nonisolated func follow(_ login: Login, revoked: @escaping @Sendable () -> Void) -> RevocationObserver {
        logins.follow(login, revoked: revoked)
    }
}
