// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
package import RelayProtocol

/// A revoked login. Its tokens are invalid, including tokens on live channels.
package struct RevokedLogin: Hashable, Sendable {
    package let subject: String
    /// The `sid` of its access tokens.
    package let session: String
    /// The time at which the last of its access tokens has expired, including clock skew.
    package let tokensEnd: Milliseconds

    init(_ family: RefreshFamily, at time: Milliseconds) {
        self.subject = family.subject
        self.session = family.id.session
        self.tokensEnd = Milliseconds(clamping: time.count + RevokedLogin.memory)
    }

    /// The life of an access token plus the clock skew.
    static let memory = AccessTokenClaims.life + 120_000
}

/// The logins: begins, refreshes and ends them.
struct Logins: Sendable {
    private let context: IssuerContext
    private let limits: IssuerLimits
    private let revoked: @Sendable (RevokedLogin) -> Void

    /// - Parameter revoked: Is called after a login was revoked.
    init(_ context: IssuerContext, _ limits: IssuerLimits, revoked: @escaping @Sendable (RevokedLogin) -> Void) {
        self.context = context
        self.limits = limits
        self.revoked = revoked
    }

    // MARK: Grants

    /// Starts a login. The least recently used login of a user who has too many is revoked.
    /// - Parameter allowed: The scopes that the request may have.
    func begin(
        _ grant: TokenGrantContext,
        subject: String,
        allowed: Scopes,
        device: String = "",
        invitedBy: EndpointID? = nil,
        event: AccountEvent.Kind
    ) throws -> GrantOutcome {
        // RFC 6749 §4.1.3 defines no `scope` for a code. A client that sends one gets no more than the user allowed.
        let scopes = grant.request.scopes ?? allowed
        guard scopes.isSubset(of: allowed) else { return .refused(OAuthError(.invalidScope, "the user allowed \(allowed) only")) }
        if let rejection = try rejection(of: grant, subject: subject, login: nil) { return .refused(rejection) }
        let (records, now) = (grant.records, grant.now)
        // A login without a refresh token is stored too, so that its access token can be revoked.
        let family = RefreshFamily(
            id: .random(),
            subject: subject,
            client: grant.request.client,
            device: device,
            scopes: scopes,
            key: grant.key,
            invitedBy: invitedBy,
            created: now,
            rotated: now
        )
        let displaced = try records.openLogins(of: subject, beyond: RefreshFamily.maximum - 1).map { try revoke($0, now: now, in: records) }
        try records.forgetRevokedLogins(of: subject, before: Milliseconds(clamping: now.count - RevokedLogin.memory))
        try records.insert(family)
        let app = RegisteredClient.name(of: grant.request.client)
        let names = [app, device == app ? "" : device].filter { !$0.isEmpty }
        try records.note(event, of: subject, names.joined(separator: ", "), now: now)
        return .granted(Granted(family: family, scopes: scopes, refreshToken: firstToken(of: family), displaced: displaced))
    }

    /// Gives a login again whose first response may have been lost.
    func repeated(_ family: RefreshFamily, _ grant: TokenGrantContext) throws -> GrantOutcome {
        if let rejection = try rejection(of: grant, subject: family.subject, login: family.id.session) { return .refused(rejection) }
        return .granted(Granted(family: family, scopes: family.scopes, refreshToken: firstToken(of: family)))
    }

    func refresh(_ token: RefreshToken, _ grant: TokenGrantContext) throws -> GrantOutcome {
        let (records, now) = (grant.records, grant.now)
        guard token.isAuthentic(by: context.master.refreshTokenKey) else { return .refused(TokenRequest.unknownToken) }
        guard var family = try records.family(token.family) else { return .refused(TokenRequest.forgottenLogin) }
        let decision = family.decision(token.number, client: grant.request.client, key: grant.key, now: now)
        switch decision {
        case .refuse(.revoked) where family.isOfRevokedEndpoint: return .refused(TokenRequest.revokedEndpoint)
        case .refuse(.revoked) where family.isOfReusedLink: return .refused(TokenRequest.reusedLink)
        case .refuse: return .refused(TokenRequest.unknownToken)
        case .revoke:
            try records.note(.tokenReused, of: family.subject, RegisteredClient.name(of: family.client), now: now)
            let login = try revoke(family, now: now, in: records)
            return .revoked(TokenRequest.unknownToken, login, because: "one of its tokens was used again")
        case .rotate, .rotateAfterRestore, .reissueSuccessor: break
        }
        let scopes = grant.request.scopes ?? family.scopes
        guard scopes.isSubset(of: family.scopes) else {
            return .refused(OAuthError(.invalidScope, "the login allows \(family.scopes) only"))
        }
        if let rejection = try rejection(of: grant, subject: family.subject, login: family.id.session) { return .refused(rejection) }
        if decision != .reissueSuccessor {
            family.rotate(from: token.number, now: now)
            try records.update(family)
        }
        return .granted(
            Granted(family: family, scopes: scopes, refreshToken: issued(to: family), hasCaughtUp: decision == .rotateAfterRestore)
        )
    }

    /// Counts a valid grant, and uses its proof.
    private func rejection(of grant: TokenGrantContext, subject: String, login: String?) throws -> OAuthError? {
        if let rejection = limits.rejection(of: grant.counted, .tokens, subject: subject, login: login, now: grant.now) { return rejection }
        guard let proof = grant.proof else { return nil }
        return try grant.records.use(proof.id, until: proof.ends) ? nil : .usedProof
    }

    private func issued(to family: RefreshFamily) -> RefreshToken {
        RefreshToken(family: family.id, number: family.current, key: context.master.refreshTokenKey)
    }

    private func firstToken(of family: RefreshFamily) -> RefreshToken? { family.scopes.canRefresh ? issued(to: family) : nil }

    // MARK: Ends

    /// Revokes a login and the unused invitations of its key, so that the thief of a device cannot return by an invitation. Call `report`
    /// after the transaction.
    func revoke(_ family: RefreshFamily, now: Milliseconds, in records: any IssuerTransaction) throws -> RevokedLogin {
        var family = family
        family.revoked = now
        try records.update(family)
        try records.note(.loginRevoked, of: family.subject, RegisteredClient.name(of: family.client), now: now)
        if let key = family.key { try records.removeOpenInvitations(madeBy: key) }
        return RevokedLogin(family, at: now)
    }

    /// Tells the log and the relay of logins that were revoked.
    func report(_ ended: [RevokedLogin], _ message: Logger.Message, level: Logger.Level = .info) async {
        for login in ended {
            await context.log(level, message, of: login.subject)
            revoked(login)
        }
    }

    /// Ends all logins of a revoked endpoint: those bound to its key, and that of a session. Its unused invitations end with
    /// them. The call may be repeated after a crash, and accepts an endpoint without a login.
    /// - Parameters:
    ///   - thumbprint: The thumbprint of the endpoint's key.
    ///   - session: The `sid` of a token that it used.
    func end(boundTo thumbprint: String, session: String?) async throws(IssuerError) {
        let now = context.now()
        let ended = try await context.store.write { records in
            try records.removeOpenInvitations(madeBy: thumbprint)
            try records.endpointRevoked(boundTo: thumbprint, session: session)
            return try records.openLogins(boundTo: thumbprint, session: session).map { try revoke($0, now: now, in: records) }
        }
        await report(ended, "ended a login of a revoked endpoint")
    }

    /// Revokes a login by the `sid` of its access tokens.
    /// - Parameter subject: The user whose login it must be; `nil` for any user.
    func end(session: String, of subject: String? = nil, because message: Logger.Message) async throws(IssuerError) {
        let now = context.now()
        let ended = try await context.store.write { records -> [RevokedLogin] in
            guard let family = try records.family(session: session), family.revoked == nil, family.subject == subject ?? family.subject
            else { return [] }
            return [try revoke(family, now: now, in: records)]
        }
        await report(ended, message)
    }

    /// Removes a user with all logins and invitations. The call may be repeated.
    func removeUser(_ subject: String) async throws(IssuerError) {
        let now = context.now()
        let ended = try await context.store.write { records in
            let logins = try records.openLogins(of: subject).map { RevokedLogin($0, at: now) }
            try records.removeUser(subject)
            return logins
        }
        for login in ended { revoked(login) }
    }

    /// Returns the logins that were revoked since a time, and whose access tokens may still be valid.
    func revoked(since time: Milliseconds) async throws(IssuerError) -> [RevokedLogin] {
        let start = max(time, Milliseconds(clamping: context.now().count - RevokedLogin.memory))
        return try await context.store.read { records in
            try records.revoked(since: start).compactMap { family in family.revoked.map { RevokedLogin(family, at: $0) } }
        }
    }
}
