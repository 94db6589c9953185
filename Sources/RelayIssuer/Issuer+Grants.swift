// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

/// What a grant that was redeemed gives.
private struct Granted: Sendable {
    var subject: String
    var scopes: Scopes
    var family: FamilyID?
    var refreshToken: RefreshToken?
}

/// How a transaction over a grant ended. A refusal may itself change something, so it is no error that would undo it.
private enum GrantOutcome: Sendable {
    case granted(Granted)
    case refused(OAuthError)
    /// Refused, and a login revoked.
    case revoked(OAuthError, Issuer.RevokedLogin)
}

extension Issuer {
    /// Redeems a grant (RFC 6749 §5).
    /// - Parameter issuer: the one of the issuer's URLs that was asked.
    func exchange(_ request: TokenRequest, proof: String?, at issuer: String) async throws(OAuthError) -> TokenResponse {
        let now = now()
        try await checkKnown(request.grant)
        let proof = try checked(proof, now: now)
        let key = proof?.key.jwkThumbprint
        let granted: Granted
        switch try await answering({ () async throws(IssuerError) in
            try await store.write { [self] records in
                switch request.grant {
                case .invitation(let code): try redeem(code, request, key: key, proof: proof, now: now, in: records)
                case .refresh(let token): try refresh(token, request, key: key, proof: proof, now: now, in: records)
                }
            }
        }) {
        case .granted(let result): granted = result
        case .refused(let error): throw error
        case .revoked(let error, let login):
            logger.warning("revoked a login: one of its codes or tokens was used twice", metadata: metadata(login.subject))
            revoked(login)
            throw error
        }
        let signer = try await answering { () async throws(IssuerError) in try await keyRing.signer(at: now) }
        let claims = AccessToken(
            issuer: issuer,
            audience: settings.audience,
            subject: granted.subject,
            client: request.client,
            scopes: granted.scopes,
            session: granted.family?.session,
            key: key,
            id: randomBytes(16),
            now: now
        )
        guard let token = try? claims.signed(by: signer.key, id: signer.id) else { throw Issuer.fault }
        logger.debug("issued tokens", metadata: metadata(granted.subject))
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

    /// Only proofs of those with a valid grant are remembered, so that others cannot fill the memory; and of one user so many only that it
    /// cannot either.
    func refusal(of proof: DPoPProof?, subject: String, now: Milliseconds) -> OAuthError? {
        if let wait = bounds.withLock({ $0.grants.add(subject, now: now) }) {
            return OAuthError(
                .temporarilyUnavailable,
                "too many tokens for this account; wait as Retry-After says",
                status: 429,
                retryAfter: wait
            )
        }
        guard let proof else { return nil }
        return switch bounds.withLock({ $0.proofs.use(proof, now: now) }) {
        case .fresh: nil
        case .replayed: OAuthError(.invalidDPoPProof, "the DPoP proof was used before; make a new one for each request")
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
        in records: IssuerRecords
    ) throws -> GrantOutcome {
        guard let invitation = try records.invitation(code.digest) else { return .refused(TokenRequest.unknownCode) }
        switch invitation.present(key: key, now: now) {
        case .expired, .replayed(revoke: nil): return .refused(TokenRequest.unknownCode)
        case .replayed(revoke: let id?):
            guard let family = try records.family(id), family.revoked == nil else { return .refused(TokenRequest.unknownCode) }
            return .revoked(TokenRequest.unknownCode, try revoke(family, now: now, in: records))
        case .accept: break
        }
        if let refusal = refusal(of: proof, subject: invitation.subject, now: now) { return .refused(refusal) }
        let scopes = request.scopes ?? .all
        var granted = Granted(subject: invitation.subject, scopes: scopes)
        if scopes.canRefresh {
            let id = FamilyID.random()
            let token = RefreshToken(family: id)
            try records.insert(
                RefreshFamily(
                    id: id,
                    subject: invitation.subject,
                    client: request.client,
                    scopes: scopes,
                    key: key,
                    created: now,
                    rotated: now,
                    current: token.digest
                )
            )
            granted.family = id
            granted.refreshToken = token
        }
        try records.redeem(code.digest, .init(key: key, family: granted.family))
        return .granted(granted)
    }

    private func refresh(
        _ token: RefreshToken,
        _ request: TokenRequest,
        key: String?,
        proof: DPoPProof?,
        now: Milliseconds,
        in records: IssuerRecords
    ) throws -> GrantOutcome {
        guard var family = try records.family(token.family) else { return .refused(TokenRequest.unknownToken) }
        let decision = family.present(token.digest, client: request.client, key: key, now: now)
        switch decision {
        case .refuse: return .refused(TokenRequest.unknownToken)
        case .revoke: return .revoked(TokenRequest.unknownToken, try revoke(family, now: now, in: records))
        case .rotate, .repeatSuccessor: break
        }
        let scopes = request.scopes ?? family.scopes
        guard scopes.isSubset(of: family.scopes) else {
            return .refused(OAuthError(.invalidScope, "the login allows \(family.scopes) only"))
        }
        if let refusal = refusal(of: proof, subject: family.subject, now: now) { return .refused(refusal) }
        let successor = token.successor(by: master.successorKey)
        if decision == .rotate {
            family.rotate(to: successor.digest, now: now)
            try records.update(family)
        }
        return .granted(Granted(subject: family.subject, scopes: scopes, family: family.id, refreshToken: successor))
    }

    private func revoke(_ family: RefreshFamily, now: Milliseconds, in records: IssuerRecords) throws -> RevokedLogin {
        var family = family
        family.revoked = now
        try records.update(family)
        return RevokedLogin(family, at: now)
    }

    /// Revokes the login that a refresh token is of (RFC 7009). A token nobody knows is as good as revoked.
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
                guard let family = try records.family(token.family), family.revoked == nil,
                    token.digest == family.current || token.digest == family.previous
                else { return nil }
                guard family.client == client else {
                    return .refused(OAuthError(.unauthorizedClient, "the token was issued to another client"))
                }
                return .revoked(TokenRequest.unknownToken, try revoke(family, now: now, in: records))
            }
        }
        switch outcome {
        case .refused(let error): throw error
        case .revoked(_, let login):
            logger.info("revoked a login at its client's wish", metadata: metadata(login.subject))
            revoked(login)
        case .granted, nil: break
        }
    }

    private func metadata(_ subject: String) -> Logger.Metadata { ["subject": "\(subject.prefix(8))"] }

    static let fault = OAuthError(.serverError, "the issuer failed; its log says why", status: 500)

    /// Turns a failure of the store into an answer, and says in the log what it was.
    func answering<Result>(_ body: () async throws(IssuerError) -> Result) async throws(OAuthError) -> Result {
        do throws(IssuerError) {
            return try await body()
        } catch {
            logger.error("the issuer failed", metadata: ["error": "\(error)"])
            throw Issuer.fault
        }
    }
}
