// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
package import RelayProtocol
import Synchronization

/// Verifies access tokens of the issuers that the relay trusts.
package actor TokenVerifier {
    private enum LogKind: Hashable {
        case refused(issuer: String?, TokenError)
        case question(issuer: String, failure: String)
    }

    /// A question about a token, and those who wait for its answer.
    private struct Question {
        var issuer: TrustedIssuer
        var ask: IntrospectionSource
        var token: Secret<String>
        var waiting: [CheckedContinuation<Result<IntrospectionCache.Entry, TokenError>, Never>]
    }

    private let rules: [String: TokenRules]
    private let now: @Sendable () -> Milliseconds
    private let logger: Logger
    private let tasks: BackgroundTasks
    private let metrics: IssuerMetrics
    private let pace = Mutex(LogPace<LogKind>())
    private var caches: [String: KeyCache] = [:]
    private let logins: LoginRegistry
    /// The running request of each issuer. All tokens of the issuer wait for it.
    private var requests: [String: Task<Void, Never>] = [:]
    /// The issuer that is asked about tokens that name none.
    private let opaque: TokenRules?
    private var introspections = IntrospectionCache()
    private var questions: [Digest256: Question] = [:]
    private var queue: QuestionQueue

    /// - Parameters:
    ///   - now: The relay's clock.
    ///   - tasks: Owns the requests to issuers.
    package init(
        issuers: [TrustedIssuer],
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        tasks: BackgroundTasks = BackgroundTasks(),
        metrics: IssuerMetrics = IssuerMetrics()
    ) {
        self.init(issuers: issuers, now: now, logger: logger, tasks: tasks, metrics: metrics, bounds: .init())
    }

    /// A verifier for other issuers, with the same revoked logins.
    package nonisolated func trusting(_ issuers: [TrustedIssuer]) -> TokenVerifier {
        TokenVerifier(issuers: issuers, now: now, logger: logger, tasks: tasks, metrics: metrics, bounds: .init(), logins: logins)
    }

    init(
        issuers: [TrustedIssuer],
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        tasks: BackgroundTasks = BackgroundTasks(),
        metrics: IssuerMetrics = IssuerMetrics(),
        bounds: QuestionQueue.Bounds,
        logins: LoginRegistry = LoginRegistry()
    ) {
        self.logins = logins
        var rules: [String: TokenRules] = [:]
        for issuer in issuers {
            for url in issuer.urls where rules[url] == nil { rules[url] = TokenRules(issuer: issuer) }
        }
        self.rules = rules
        self.opaque = issuers.first { if case .introspection = $0.check { true } else { false } }.map { TokenRules(issuer: $0) }
        self.now = now
        self.logger = logger
        self.tasks = tasks
        self.metrics = metrics
        self.queue = QuestionQueue(bounds: bounds)
    }

    /// - Parameter key: The identity key of the endpoint that presents the token. A bound token must be bound to this key. `nil` for the
    ///   operator, who presents tokens of others.
    package nonisolated func verify(_ token: Secret<String>, key: SigningPublicKey?) async throws(TokenError) -> VerifiedToken {
        do throws(TokenFault) {
            return try await check(token, key: key, address: "")
        } catch {
            throw error.error
        }
    }

    /// - Parameter address: The network of the client.
    nonisolated func check(_ token: Secret<String>, key: SigningPublicKey?, address: String) async throws(TokenFault) -> VerifiedToken {
        let parsed = try? SignedJSON(parsing: token.exposed)
        // The claim is not verified yet; it only selects the issuer that verifies the token.
        let named = parsed.flatMap { try? $0.claims(TokenClaims.self) }?.text("iss").flatMap { rules[$0] }
        let verified: VerifiedToken
        if let rules = named ?? (parsed == nil ? opaque : nil), case .introspection(let ask) = rules.issuer.check {
            verified = try await introspect(token, by: rules, ask, key: key, address: address)
        } else {
            verified = try await verify(signed: token, key: key)
        }
        for login in [verified.login, Login(token: token.exposed), verified.signedAlike] {
            if let login, logins.isRevoked(login) { throw TokenFault(.revoked, issuer: verified.identity.issuer) }
        }
        return verified
    }

    private nonisolated func verify(signed token: Secret<String>, key: SigningPublicKey?) async throws(TokenFault) -> VerifiedToken {
        let parsed: SignedJSON
        let claims: TokenClaims
        do throws(SignedJSONError) {
            parsed = try SignedJSON(parsing: token.exposed)
            claims = try parsed.claims(TokenClaims.self)
        } catch {
            throw TokenFault(.malformed)
        }
        let (header, name) = (parsed.header, claims.text("iss"))
        let found = name.flatMap { rules[$0] }
        guard let algorithm = TokenAlgorithm(rawValue: header.alg) else {
            throw TokenFault(.algorithm, issuer: found?.issuer.key, name: "alg", found: header.alg)
        }
        guard let rules = found else { throw TokenFault(.unknownIssuer, name: "iss", found: name ?? "") }
        try rules.checkType(header)
        let signer: TokenKey
        do throws(TokenError) {
            let find = { (keys: [TokenKey]) in keys.first { $0.isValid(parsed.signature, for: parsed.signed, by: algorithm) } }
            let known = try await keys(of: rules.issuer, id: header.kid, algorithm: algorithm)
            if let key = find(known.keys) {
                signer = key
            } else {
                // The issuer may have replaced a key by another one with the same id.
                guard let newer = try await keys(of: rules.issuer, id: header.kid, algorithm: algorithm, after: known.generation),
                    let key = find(newer)
                else { throw .signature }
                signer = key
            }
        } catch {
            throw TokenFault(error, issuer: rules.issuer.key, name: error == .unknownKey ? "kid" : nil, found: header.kid ?? "")
        }
        var verified = try rules.check(claims, key: key, now: now())
        // By the key itself: a token need not name it.
        if rules.issuer.endsLogins, let id = signer.id { verified.signedAlike = Login(issuer: rules.issuer.key, key: id) }
        return verified
    }

    private nonisolated func introspect(
        _ token: Secret<String>,
        by rules: TokenRules,
        _ ask: @escaping IntrospectionSource,
        key: SigningPublicKey?,
        address: String
    ) async throws(TokenFault) -> VerifiedToken {
        guard (1...SignedJSON.maximumBytes).contains(token.exposed.utf8.count),
            token.exposed.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw TokenFault(.malformed, issuer: rules.issuer.key)
        }
        let entry: IntrospectionCache.Entry
        switch await answer(about: token, of: rules.issuer, ask, from: address) {
        case .success(let answer): entry = answer
        case .failure(let error): throw TokenFault(error, issuer: rules.issuer.key)
        }
        guard let claims = entry.claims else { throw TokenFault(.revoked, issuer: rules.issuer.key, name: "active", found: "false") }
        // An issuer that names itself has to be the one that was asked.
        if let issuer = claims.text("iss"), !rules.issuer.urls.contains(issuer) {
            throw TokenFault(.unknownIssuer, issuer: rules.issuer.key, name: "iss", expected: rules.issuer.key, found: issuer)
        }
        var verified = try rules.check(claims, key: key, now: now())
        verified.recheck = Milliseconds(clamping: entry.askedAt.count + rules.issuer.recheck.count)
        return verified
    }

    // MARK: Questions

    private func answer(
        about token: Secret<String>,
        of issuer: TrustedIssuer,
        _ ask: @escaping IntrospectionSource,
        from address: String
    ) async -> Result<IntrospectionCache.Entry, TokenError> {
        let digest = Digest256(hashing: Array("\(issuer.key) \(token.exposed)".utf8))
        if let known = introspections.entry(digest, now: now()) { return .success(known) }
        return await withCheckedContinuation { waiting in
            guard questions[digest] == nil else {
                questions[digest]?.waiting.append(waiting)
                return
            }
            questions[digest] = Question(issuer: issuer, ask: ask, token: token, waiting: [waiting])
            if let givenUp = queue.add(digest, from: address, isKnown: introspections.isKnown(digest)) {
                finish(givenUp, .failure(.issuerUnavailable))
            }
            askNext()
        }
    }

    /// How many questions wait, for tests.
    var waitingQuestions: Int { queue.waiting }

    private func askNext() {
        while let digest = queue.next() {
            guard let question = questions[digest] else {
                queue.ended(digest)
                continue
            }
            let task = tasks.start { [self] in
                let time = now()
                let result = await measured(question.issuer) { try await question.ask(question.token) }
                await answered(digest, question.issuer, result, askedAt: time)
            }
            if task == nil {
                queue.ended(digest)
                finish(digest, .failure(.issuerUnavailable))
            }
        }
    }

    private func answered(
        _ digest: Digest256,
        _ issuer: TrustedIssuer,
        _ result: Result<IntrospectionAnswer, any Error>,
        askedAt time: Milliseconds
    ) {
        queue.ended(digest)
        switch result {
        case .success(let answer):
            let entry = IntrospectionCache.Entry(
                claims: answer.claims,
                askedAt: time,
                // Shorter than the interval, so that a due check asks the issuer and finds no cached answer.
                life: issuer.recheck.count / 6 * 5
            )
            introspections.insert(entry, for: digest)
            finish(digest, .success(entry))
        case .failure(let error):
            log(error, ofQuestionTo: issuer)
            let isRefused = error as? IssuerHTTPClient.Failure == .credentialsRefused
            finish(digest, .failure(isRefused ? .relayRefused : .issuerUnavailable))
        }
        askNext()
    }

    private func finish(_ digest: Digest256, _ result: Result<IntrospectionCache.Entry, TokenError>) {
        for waiting in questions.removeValue(forKey: digest)?.waiting ?? [] { waiting.resume(returning: result) }
    }

    private nonisolated func log(_ error: any Error, ofQuestionTo issuer: TrustedIssuer) {
        let kind = Self.kind(error)
        guard let leftOut = pace.withLock({ $0.take(.question(issuer: issuer.key, failure: kind), at: now()) }) else { return }
        let metadata: Logger.Metadata = ["issuer": "\(issuer.key)", "error": "\(kind)", "unlogged": "\(leftOut)"]
        if error as? IssuerHTTPClient.Failure == .credentialsRefused {
            logger.error("an issuer refuses this relay's clientID or secret; correct its entry in the issuers file", metadata: metadata)
        } else {
            logger.warning("cannot ask an issuer about a token", metadata: metadata)
        }
    }

    /// Asks each issuer that is asked about tokens about an invented one, so that wrong credentials of the relay are logged at the start.
    package nonisolated func checkIssuers() async {
        for (url, rules) in rules.sorted(by: { $0.key < $1.key }) where url == rules.issuer.key {
            guard case .introspection(let ask) = rules.issuer.check else { continue }
            let invented = Base64.url.encode((0..<16).map { _ in UInt8.random(in: .min ... .max) })
            if case .failure(let error) = await measured(rules.issuer, { try await ask(Secret("invented-\(invented)")) }) {
                log(error, ofQuestionTo: rules.issuer)
            }
        }
    }

    /// What is logged of an error: another error's text may quote the response.
    private static func kind(_ error: any Error) -> String {
        (error as? IssuerHTTPClient.Failure).map { "\($0)" } ?? "\(type(of: error))"
    }

    /// A request to an issuer, with its time and result in the metrics.
    private nonisolated func measured<Answer>(
        _ issuer: TrustedIssuer,
        _ request: () async throws -> Answer
    ) async -> Result<Answer, any Error> {
        let begun = ContinuousClock.now
        let result: Result<Answer, any Error>
        var failure: String?
        do {
            result = .success(try await request())
        } catch {
            // Without the status: labels are few.
            failure = if case .status = error as? IssuerHTTPClient.Failure { "status" } else { Self.kind(error) }
            result = .failure(error)
        }
        metrics.asked(issuer.key, took: ContinuousClock.now - begun, failure: failure)
        return result
    }

    // MARK: Revocations

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

    /// Rejects all tokens of keys that their issuer has removed, and notifies the channels that depend on them.
    package func forget(_ keys: Set<String>, of issuer: String) async {
        // An answer of the issuer may be under way that still has them.
        let until = Milliseconds(clamping: now().count + KeyCache.maximumLife)
        for key in keys { revoke(Login(issuer: issuer, key: key), until: until) }
        await requests[issuer]?.value
        // The next token may be of a new key.
        caches[issuer] = nil
    }

    // MARK: Keys

    private func keys(
        of issuer: TrustedIssuer,
        id: String?,
        algorithm: TokenAlgorithm
    ) async throws(TokenError) -> (keys: [TokenKey], generation: Int) {
        // A request that is already running may have been answered before the issuer had the key. A second request then finds it.
        for _ in 0..<3 {
            let cache = caches[issuer.key, default: KeyCache()]
            switch cache.answer(id: id, algorithm: algorithm, now: now()) {
            case .found(let keys): return (keys, cache.generation)
            case .unknown:
                guard let request = requests[issuer.key] else { throw .unknownKey }
                await request.value
            case .unavailable:
                guard let request = requests[issuer.key] else { throw .issuerUnavailable }
                await request.value
            case .fetch:
                guard let request = request(issuer) else { throw .issuerUnavailable }
                await request.value
            }
        }
        throw .unknownKey
    }

    /// The keys of a later request to the issuer; `nil` if there is none and none may be sent now.
    private func keys(
        of issuer: TrustedIssuer,
        id: String?,
        algorithm: TokenAlgorithm,
        after generation: Int
    ) async throws(TokenError) -> [TokenKey]? {
        let cache = caches[issuer.key, default: KeyCache()]
        if let running = requests[issuer.key] {
            await running.value
        } else if cache.generation == generation {
            guard cache.mayTry(at: now()) else { return nil }
            await request(issuer)?.value
        }
        let newer = try await keys(of: issuer, id: id, algorithm: algorithm)
        return newer.generation > generation ? newer.keys : nil
    }

    private func request(_ issuer: TrustedIssuer) -> Task<Void, Never>? {
        if let request = requests[issuer.key] { return request }
        caches[issuer.key, default: KeyCache()].began(at: now())
        let request = tasks.start { [self] in
            let result = await measured(issuer) {
                guard case .keys(let source) = issuer.check else { throw TokenError.unknownKey }
                return try await source()
            }
            await finish(issuer, result)
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
        address: String,
        completion: @escaping @Sendable (Result<AcceptedToken, TokenRejection>) -> Void
    ) {
        let task = tasks.start { [self] in
            do throws(TokenFault) {
                let single = Login(token: token)
                let token = try await check(Secret(token), key: endpointKey, address: address)
                let accepted = AcceptedToken(
                    identity: token.identity,
                    mayMakeAccount: token.mayMakeAccount,
                    expires: token.expires,
                    scopes: token.allowed,
                    login: token.login,
                    inviter: token.inviter,
                    recheck: token.recheck,
                    single: single,
                    signedAlike: token.signedAlike,
                    authenticated: token.authenticated,
                    isBound: token.isBound,
                    made: token.made,
                    names: token.names
                )
                completion(.success(accepted))
            } catch {
                metrics.refusedToken(error.error)
                log(error, from: address)
                completion(.failure(error.rejection))
            }
        }
        if task == nil { completion(.failure(TokenFault(.issuerUnavailable).rejection)) }
    }

    private nonisolated func log(_ fault: TokenFault, from address: String) {
        let kind = LogKind.refused(issuer: fault.issuer, fault.error)
        guard let leftOut = pace.withLock({ $0.take(kind, at: now()) }) else { return }
        let metadata: Logger.Metadata = ["address": "\(address)", "unlogged": "\(leftOut)"]
        logger.notice("refused a token", metadata: metadata.merging(fault.metadata) { $1 })
    }

    package nonisolated func follow(_ login: Login, revoked: @escaping @Sendable () -> Void) -> RevocationObserver {
        logins.follow(login, revoked: revoked)
    }
}
