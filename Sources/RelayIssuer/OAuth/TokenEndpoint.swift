// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

/// A token request within the transaction that decides on it.
struct TokenGrantContext {
    let request: TokenRequest
    let proof: DPoPProof?
    /// The thumbprint of the key that proved the request.
    let key: String?
    let now: Milliseconds
    let counted: IssuerLimits.Request
    let records: any IssuerTransaction
}

/// The result of a redeemed grant.
struct Granted: Sendable {
    var family: RefreshFamily
    var scopes: Scopes
    var refreshToken: RefreshToken?
    /// Whether the stored login is older than the redeemed token.
    var hasCaughtUp = false
    /// The logins that were revoked to make room for this one.
    var displaced: [RevokedLogin] = []
}

/// The outcome of a grant's transaction. A rejection may itself change the store, so it is a value: an error would roll the
/// transaction back.
enum GrantOutcome: Sendable {
    case granted(Granted)
    case refused(OAuthError)
    /// Refused: the subject's invitation was used before.
    case usedAgain(subject: String)
    /// Refused, and a login is revoked.
    case revoked(OAuthError, RevokedLogin, because: String)
}

/// The token endpoint (RFC 6749 §5) and the revocation endpoint (RFC 7009).
final class TokenEndpoint: Sendable {
    private let context: IssuerContext
    private let logins: Logins
    private let accessTokens: AccessTokens
    /// Polls of pending devices. The window is a little shorter than the interval, because the network may shorten the interval.
    private let polls = Mutex(
        RateLimiter(perWindow: 1, capacity: 2 * DeviceAuthorization.maximum, window: DeviceAuthorization.interval * 4 / 5)
    )

    init(_ context: IssuerContext, logins: Logins, accessTokens: AccessTokens) {
        self.context = context
        self.logins = logins
        self.accessTokens = accessTokens
    }

    /// Answers a request, and reports a sign-in to the operator.
    func answer(_ form: Form, proofs: [String], from client: ClientNetworks, at issuer: String) async throws(OAuthError) -> TokenResponse {
        let exchange = { () async throws(OAuthError) -> TokenResponse in
            guard proofs.count <= 1 else { throw OAuthError(.invalidDPoPProof, "there is more than one DPoP header") }
            return try await self.exchange(TokenRequest(form), proof: proofs.first, at: issuer)
        }
        guard let method = TokenRequest.method(ofGrant: form["grant_type"]) else { return try await exchange() }
        let app = RegisteredClient.shown(form["client_id"] ?? "")
        let response = try await context.signingIn(
            by: method,
            from: client,
            app: app,
            name: { [context] in await context.account(of: $0.subject) },
            exchange
        )
        guard let response else { throw TokenRequest.unknownCode }
        return response
    }

    /// Redeems a grant.
    /// - Parameter issuer: The issuer URL that received the request.
    func exchange(_ request: TokenRequest, proof: String?, at issuer: String) async throws(OAuthError) -> TokenResponse {
        let now = context.now()
        try await checkKnown(request.grant)
        let proof = try checked(proof, now: now)
        try countPoll(request.grant, now: now)
        let (key, counted) = (proof?.key.jwkThumbprint, IssuerLimits.Request())
        let outcome = try await context.write { [self] records in
            try redeem(TokenGrantContext(request: request, proof: proof, key: key, now: now, counted: counted, records: records))
        }
        let granted: Granted
        switch outcome {
        case .granted(let result): granted = result
        case .refused(let error): throw error
        case .usedAgain(let subject):
            await context.log(.warning, "an invitation was used again, which was refused", of: subject)
            throw TokenRequest.unknownCode
        case .revoked(let error, let login, let reason):
            await logins.report([login], "revoked a login: \(reason)", level: .warning)
            throw error
        }
        let subject = granted.family.subject
        await logins.report(granted.displaced, "revoked the least recently used login of a user who has too many", level: .notice)
        if granted.hasCaughtUp {
            await context.log(.notice, "a login's refresh token is newer than the database, which was restored", of: subject)
        }
        let token = try await accessTokens.sign(granted, key: key, at: issuer, now: now)
        await context.log(.debug, "issued tokens", of: subject)
        return TokenResponse(
            subject: subject,
            accessToken: token,
            isBound: key != nil,
            refreshToken: granted.refreshToken?.text,
            scopes: granted.scopes
        )
    }

    /// Looks a grant up by its digest before more expensive checks, such as a proof's signature.
    private func checkKnown(_ grant: TokenRequest.Grant) async throws(OAuthError) {
        let unknown = try await context.read { records -> OAuthError? in
            switch grant {
            case .invitation(let code): try records.invitation(code.digest) == nil ? TokenRequest.unknownCode : nil
            case .device(let code): try records.deviceAuthorization(code) == nil ? TokenRequest.unknownDeviceCode : nil
            case .code(let code, _, _): try records.authorizationCode(code) == nil ? TokenRequest.unknownAuthorizationCode : nil
            case .refresh(let token): try records.family(token.family) == nil ? TokenRequest.unknownToken : nil
            }
        }
        if let unknown { throw unknown }
    }

    private func checked(_ proof: String?, now: Milliseconds) throws(OAuthError) -> DPoPProof? {
        guard let proof else { return nil }
        do throws(DPoPError) {
            return try DPoPProof(checking: proof, method: "POST", urls: context.urls.map { $0 + "/token" }, now: now)
        } catch {
            throw OAuthError(.invalidDPoPProof, error.description)
        }
    }

    private func countPoll(_ grant: TokenRequest.Grant, now: Milliseconds) throws(OAuthError) {
        guard case .device(let code) = grant, polls.withLock({ $0.add("\(code)", now: now) }) != nil else { return }
        throw OAuthError(.slowDown, "ask less often: at most once in \(DeviceAuthorization.interval / 1_000) seconds")
    }

    // MARK: Grants

    private func redeem(_ grant: TokenGrantContext) throws -> GrantOutcome {
        switch grant.request.grant {
        case .invitation(let code): try redeem(invitation: code.digest, grant)
        case .device(let code): try redeem(device: code, grant)
        case .code(let code, let redirect, let verifier): try redeem(code: code, redirect: redirect, verifier: verifier, grant)
        case .refresh(let token): try logins.refresh(token, grant)
        }
    }

    private func redeem(invitation code: Digest256, _ grant: TokenGrantContext) throws -> GrantOutcome {
        let (records, now) = (grant.records, grant.now)
        guard let invitation = try records.invitation(code) else { return .refused(TokenRequest.unknownCode) }
        switch invitation.decision(key: grant.key, now: now) {
        case .accept: break
        case .expired: return .refused(TokenRequest.unknownCode)
        case .repeated(let id):
            guard let family = try records.family(id), family.client == grant.request.client, family.key == grant.key else {
                return .refused(TokenRequest.unknownCode)
            }
            guard family.revoked == nil else {
                return .refused(family.isOfReusedLink ? TokenRequest.reusedLink : TokenRequest.unknownCode)
            }
            return try logins.repeated(family, grant)
        case .usedAgain: return .usedAgain(subject: invitation.subject)
        case .revoke(let id):
            guard var family = try records.family(id), family.revoked == nil else { return .usedAgain(subject: invitation.subject) }
            try records.note(.linkReused, of: family.subject, RegisteredClient.name(of: family.client), now: now)
            // Both devices are told: the second one now, the first one when it uses its refresh token.
            family.isOfReusedLink = true
            let login = try logins.revoke(family, now: now, in: records)
            return .revoked(TokenRequest.reusedLink, login, because: "two devices with keys of their own used its invitation")
        }
        let inviter = invitation.inviter?.endpoint
        let outcome = try logins.begin(grant, subject: invitation.subject, allowed: .all, invitedBy: inviter, event: .deviceJoined)
        if case .granted(let granted) = outcome { try records.redeem(code, .init(key: grant.key, family: granted.family.id)) }
        return outcome
    }

    private func redeem(code: Digest256, redirect: String, verifier: Secret<String>, _ grant: TokenGrantContext) throws -> GrantOutcome {
        let (records, now) = (grant.records, grant.now)
        guard let stored = try records.authorizationCode(code) else { return .refused(TokenRequest.unknownAuthorizationCode) }
        switch stored.decision(client: grant.request.client, redirect: redirect, verifier: verifier, key: grant.key, now: now) {
        case .accept: break
        case .refuse: return .refused(TokenRequest.unknownAuthorizationCode)
        case .revoke(let id):
            guard let family = try records.family(id), family.revoked == nil else { return .refused(TokenRequest.unknownAuthorizationCode) }
            try records.note(.codeReplayed, of: family.subject, RegisteredClient.name(of: family.client), now: now)
            let login = try logins.revoke(family, now: now, in: records)
            return .revoked(TokenRequest.unknownAuthorizationCode, login, because: "its authorization code was used again")
        }
        let device = RegisteredClient(id: stored.client)?.name ?? ""
        let outcome = try logins.begin(grant, subject: stored.subject, allowed: stored.scopes, device: device, event: .appSignedIn)
        if case .granted(let granted) = outcome {
            try records.redeem(authorizationCode: code, .init(key: grant.key, family: granted.family.id))
        }
        return outcome
    }

    private func redeem(device code: Digest256, _ grant: TokenGrantContext) throws -> GrantOutcome {
        guard let stored = try grant.records.deviceAuthorization(code) else { return .refused(TokenRequest.unknownDeviceCode) }
        switch stored.answer(client: grant.request.client, now: grant.now) {
        case .refuse(let error): return .refused(error)
        case .grant(let subject):
            let outcome = try logins.begin(grant, subject: subject, allowed: stored.scopes, device: stored.device, event: .appSignedIn)
            if case .granted = outcome { try grant.records.removeDeviceAuthorization(code) }
            return outcome
        }
    }

    // MARK: Revocation

    /// Revokes the login of a refresh token. An unknown token is not an error.
    func revoke(_ text: String, client: String) async throws(OAuthError) {
        guard let token = RefreshToken(parsing: text) else {
            guard !text.utf8.contains(UInt8(ascii: ".")) else {
                throw OAuthError(.unsupportedTokenType, "access tokens end by themselves within 15 minutes; revoke the refresh token")
            }
            return
        }
        guard token.isAuthentic(by: context.master.refreshTokenKey) else { return }
        let now = context.now()
        let ended = try await context.write { [logins] records -> Result<[RevokedLogin], OAuthError> in
            guard let family = try records.family(token.family), family.mayBeRevoked(with: token.number) else { return .success([]) }
            guard family.client == client else {
                return .failure(OAuthError(.unauthorizedClient, "the token was issued to another client"))
            }
            return .success([try logins.revoke(family, now: now, in: records)])
        }
        await logins.report(try ended.get(), "revoked a login: its client asked for it")
    }
}
