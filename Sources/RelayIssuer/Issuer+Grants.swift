// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

/// The result of a redeemed grant.
struct Granted: Sendable {
    var family: RefreshFamily
    var scopes: Scopes
    var refreshToken: RefreshToken?
    /// Whether the stored login is older than the redeemed token.
    var hasCaughtUp = false
    /// The logins that were revoked to make room for this one.
    var displaced: [Issuer.RevokedLogin] = []
}

/// The outcome of a grant's transaction. A rejection may itself change the store, so it is a value: an error would roll the
/// transaction back.
enum GrantOutcome: Sendable {
    case granted(Granted)
    case refused(OAuthError)
    /// Refused: the subject's invitation was used before.
    case usedAgain(subject: String)
    /// Refused, and a login is revoked.
    case revoked(OAuthError, Issuer.RevokedLogin, because: String)
}

extension Issuer {
    /// Redeems a grant (RFC 6749 §5).
    /// - Parameters:
    ///   - issuer: The issuer URL that received the request.
    ///   - redeemed: Called with the user of the grant.
    func exchange(
        _ request: TokenRequest,
        proof: String?,
        at issuer: String,
        redeemed: (_ subject: String) -> Void = { _ in }
    ) async throws(OAuthError) -> TokenResponse {
        let now = now()
        try await checkKnown(request.grant)
        let proof = try checked(proof, now: now)
        let key = proof?.key.jwkThumbprint
        let granted: Granted
        switch try await answering({ () async throws(IssuerError) in
            try await store.write { [self] records in
                switch request.grant {
                case .invitation(let code): try redeem(code, request, key: key, proof: proof, now: now, in: records)
                case .device(let code): try redeem(device: code, request, key: key, proof: proof, now: now, in: records)
                case .code(let code, let redirect, let verifier):
                    try redeem(code, redirect: redirect, verifier: verifier, request, key: key, proof: proof, now: now, in: records)
                case .refresh(let token): try refresh(token, request, key: key, proof: proof, now: now, in: records)
                }
            }
        }) {
        case .granted(let result): granted = result
        case .refused(let error): throw error
        case .usedAgain(let subject):
            await log(.warning, "an invitation was used again, which was refused", of: subject)
            throw TokenRequest.unknownCode
        case .revoked(let error, let login, let reason):
            await log(.warning, "revoked a login: \(reason)", of: login.subject)
            revoked(login)
            throw error
        }
        for login in granted.displaced {
            await log(.notice, "revoked the least recently used login of a user who has too many", of: login.subject)
            revoked(login)
        }
        if granted.hasCaughtUp {
            await log(.notice, "a login's refresh token is newer than the database, which was restored", of: granted.family.subject)
        }
        let signer = try await answering { () async throws(IssuerError) in try await keyRing.signer(at: now) }
        let claims = AccessTokenClaims(
            issuer: issuer,
            audience: settings.audience,
            subject: granted.family.subject,
            client: granted.family.client,
            scopes: granted.scopes,
            session: granted.family.id.session,
            key: key,
            invitedBy: granted.family.invitedBy,
            begun: granted.family.created,
            id: randomBytes(16),
            now: now
        )
        guard let token = try? claims.signed(by: signer.key, id: signer.id) else { throw Issuer.fault }
        await log(.debug, "issued tokens", of: granted.family.subject)
        redeemed(granted.family.subject)
        return TokenResponse(
            accessToken: token,
            isBound: key != nil,
            refreshToken: granted.refreshToken?.text,
            scopes: granted.scopes
        )
    }

    private func checked(_ proof: String?, now: Milliseconds) throws(OAuthError) -> DPoPProof? {
        guard let proof else { return nil }
        do throws(DPoPError) {
            return try DPoPProof(checking: proof, method: "POST", urls: urls.map { $0 + "/token" }, now: now)
        } catch {
            throw OAuthError(.invalidDPoPProof, error.description)
        }
    }

    /// Applies the rate limits, and remembers the proof. Only proofs with a valid grant are remembered, and the rate limits
    /// bound them for each user, so that no client can fill the replay cache.
    /// - Parameters:
    ///   - kind: What is requested.
    ///   - login: The requesting login; `nil` if one begins.
    func rejection(
        of proof: DPoPProof?,
        _ kind: GrantKind,
        subject: String,
        login: String?,
        now: Milliseconds
    ) -> OAuthError? {
        let excess = bounds.withLock { bounds in
            switch kind {
            case .tokens: bounds.tokens.add(subject, login: login, now: now)
            case .invitations: bounds.invitations.add(subject, login: login, now: now)
            }
        }
        if let excess {
            let (owner, wait) =
                switch excess {
                case .login(let wait): ("for this login", wait)
                case .user(let wait): ("for this account, all its logins together", wait)
                }
            return OAuthError(
                .temporarilyUnavailable,
                "too many \(kind.rawValue) in a minute \(owner); wait as Retry-After says",
                status: 429,
                retryAfter: wait
            )
        }
        guard let proof else { return nil }
        return switch bounds.withLock({ $0.proofs.use(proof, now: now) }) {
        case .fresh: nil
        case .replayed:
            OAuthError(.invalidDPoPProof, "the DPoP proof was used, or made before this server started; make a new one for each request")
        case .full:
            OAuthError(.temporarilyUnavailable, "too many proofs at once; try again in a minute", status: 503, retryAfter: 60_000)
        }
    }

    private func redeem(
        _ code: InvitationCode,
        _ request: TokenRequest,
        key: String?,
        proof: DPoPProof?,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws -> GrantOutcome {
        guard let invitation = try records.invitation(code.digest) else { return .refused(TokenRequest.unknownCode) }
        switch invitation.decision(key: key, now: now) {
        case .accept: break
        case .expired: return .refused(TokenRequest.unknownCode)
        case .repeated(let id):
            guard let family = try records.family(id), family.client == request.client, family.key == key else {
                return .refused(TokenRequest.unknownCode)
            }
            guard family.revoked == nil else {
                return .refused(family.isOfReusedLink ? TokenRequest.reusedLink : TokenRequest.unknownCode)
            }
            if let rejection = rejection(of: proof, .tokens, subject: family.subject, login: family.id.session, now: now) {
                return .refused(rejection)
            }
            var granted = Granted(family: family, scopes: family.scopes)
            if family.scopes.canRefresh {
                granted.refreshToken = RefreshToken(family: family.id, number: family.current, key: master.refreshTokenKey)
            }
            return .granted(granted)
        case .usedAgain: return .usedAgain(subject: invitation.subject)
        case .revoke(let id):
            guard var family = try records.family(id), family.revoked == nil else { return .usedAgain(subject: invitation.subject) }
            try records.note(.linkReused, of: family.subject, RegisteredClient.shown(family.client), now: now)
            // Both devices are told: the second one now, the first one when it uses its refresh token.
            family.isOfReusedLink = true
            let login = try revoke(family, now: now, in: records)
            return .revoked(TokenRequest.reusedLink, login, because: "two devices with keys of their own used its invitation")
        }
        let outcome = try begin(
            subject: invitation.subject,
            request,
            scopes: request.scopes ?? .all,
            invitedBy: invitation.inviter?.endpoint,
            event: .deviceJoined,
            key: key,
            proof: proof,
            now: now,
            in: records
        )
        if case .granted(let granted) = outcome { try records.redeem(code.digest, .init(key: key, family: granted.family.id)) }
        return outcome
    }

    /// Starts a login. The least recently used login of a user who has too many is revoked.
    func begin(
        subject: String,
        _ request: TokenRequest,
        scopes: Scopes,
        device: String = "",
        invitedBy: EndpointID? = nil,
        event: AccountEvent.Kind,
        key: String?,
        proof: DPoPProof?,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws -> GrantOutcome {
        if let rejection = rejection(of: proof, .tokens, subject: subject, login: nil, now: now) { return .refused(rejection) }
        // A login without a refresh token is stored too, so that its access token can be revoked.
        let family = RefreshFamily(
            id: .random(),
            subject: subject,
            client: request.client,
            device: device,
            scopes: scopes,
            key: key,
            invitedBy: invitedBy,
            created: now,
            rotated: now
        )
        let displaced = try records.openLogins(of: subject, beyond: RefreshFamily.maximum - 1).map { try revoke($0, now: now, in: records) }
        try records.forgetRevokedLogins(of: subject, before: Milliseconds(clamping: now.count - RevokedLogin.memory))
        try records.insert(family)
        let app = RegisteredClient.shown(request.client)
        try records.note(event, of: subject, device.isEmpty || device == app ? app : "\(app), \(device)", now: now)
        var granted = Granted(family: family, scopes: family.scopes, displaced: displaced)
        if family.scopes.canRefresh {
            granted.refreshToken = RefreshToken(family: family.id, number: family.current, key: master.refreshTokenKey)
        }
        return .granted(granted)
    }

    private func refresh(
        _ token: RefreshToken,
        _ request: TokenRequest,
        key: String?,
        proof: DPoPProof?,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws -> GrantOutcome {
        guard token.isAuthentic(by: master.refreshTokenKey) else { return .refused(TokenRequest.unknownToken) }
        guard var family = try records.family(token.family) else { return .refused(TokenRequest.forgottenLogin) }
        let decision = family.decision(token.number, client: request.client, key: key, now: now)
        switch decision {
        case .refuse(.revoked) where family.isOfRevokedEndpoint: return .refused(TokenRequest.revokedEndpoint)
        case .refuse(.revoked) where family.isOfReusedLink: return .refused(TokenRequest.reusedLink)
        case .refuse: return .refused(TokenRequest.unknownToken)
        case .revoke:
            try records.note(.tokenReused, of: family.subject, RegisteredClient.shown(family.client), now: now)
            let login = try revoke(family, now: now, in: records)
            return .revoked(TokenRequest.unknownToken, login, because: "one of its tokens was used again")
        case .rotate, .rotateAfterRestore, .reissueSuccessor: break
        }
        let scopes = request.scopes ?? family.scopes
        guard scopes.isSubset(of: family.scopes) else {
            return .refused(OAuthError(.invalidScope, "the login allows \(family.scopes) only"))
        }
        if let rejection = rejection(of: proof, .tokens, subject: family.subject, login: family.id.session, now: now) {
            return .refused(rejection)
        }
        if decision != .reissueSuccessor {
            family.rotate(from: token.number, now: now)
            try records.update(family)
        }
        var granted = Granted(family: family, scopes: scopes)
        granted.refreshToken = RefreshToken(family: family.id, number: family.current, key: master.refreshTokenKey)
        granted.hasCaughtUp = decision == .rotateAfterRestore
        return .granted(granted)
    }

    /// Revokes the login of a refresh token (RFC 7009). An unknown token is not an error.
    func revoke(_ text: String, client: String) async throws(OAuthError) {
        guard let token = RefreshToken(parsing: text) else {
            guard !text.utf8.contains(UInt8(ascii: ".")) else {
                throw OAuthError(.unsupportedTokenType, "access tokens end by themselves within 15 minutes; revoke the refresh token")
            }
            return
        }
        let now = now()
        let outcome = try await answering { () async throws(IssuerError) in
            try await store.write { [self] records -> GrantOutcome? in
                guard token.isAuthentic(by: master.refreshTokenKey), let family = try records.family(token.family),
                    family.mayBeRevoked(with: token.number)
                else { return nil }
                guard family.client == client else {
                    return .refused(OAuthError(.unauthorizedClient, "the token was issued to another client"))
                }
                return .revoked(TokenRequest.unknownToken, try revoke(family, now: now, in: records), because: "its client asked for it")
            }
        }
        switch outcome {
        case .refused(let error): throw error
        case .revoked(_, let login, let reason):
            await log(.info, "revoked a login: \(reason)", of: login.subject)
            revoked(login)
        case .granted, .usedAgain, nil: break
        }
    }

    static let fault = OAuthError(.serverError, "the issuer failed; its log says why", status: 500)

    /// Converts an error of the store into a response, and logs the error.
    func answering<Result>(_ body: () async throws(IssuerError) -> Result) async throws(OAuthError) -> Result {
        do throws(IssuerError) {
            return try await body()
        } catch {
            logger.error("the issuer failed", metadata: ["error": "\(error)"])
            throw Issuer.fault
        }
    }
}
