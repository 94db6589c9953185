// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// The credentials with which an endpoint requests an invitation into its account.
struct InviteCredentials: Sendable {
    enum Scheme: Hashable {
        case bearer
        case dpop
    }

    var scheme: Scheme
    var token: String
    /// The values of the `DPoP` header.
    var proofs: [String]

    /// - Parameter authorization: The values of the `Authorization` header.
    init(authorization: [String], proofs: [String]) throws(OAuthError) {
        guard let only = authorization.first, authorization.count == 1 else {
            throw .unauthorized("one Authorization header is needed")
        }
        let parts = only.split(separator: " ", maxSplits: 1)
        switch (parts.first?.lowercased(), parts.count) {
        case ("dpop", 2): scheme = .dpop
        case ("bearer", 2): scheme = .bearer
        default: throw .unauthorized("the Authorization header must be DPoP or Bearer with an access token")
        }
        token = parts.last.map(String.init) ?? ""
        self.proofs = proofs
    }
}

/// The response with a new invitation.
struct InvitationResponse: Encodable, Sendable {
    var code: Secret<String>
    var expiresIn = Invitation.life / 1_000
    /// The relay's main URL: the inviter may know it by one that only its own machine can dial.
    var relayURL: String?

    private enum CodingKeys: String, CodingKey {
        case code
        case expiresIn = "expires_in"
        case relayURL = "relay_url"
    }
}

/// The invitations of devices into accounts.
struct Invitations: Sendable {
    let context: IssuerContext
    let limits: IssuerLimits
    let accessTokens: AccessTokens
    /// Whether the endpoint with the key of this thumbprint may invite devices into the account of a subject.
    let mayInvite: @Sendable (_ thumbprint: String, _ subject: String) async -> Bool

    /// Creates a code that admits one endpoint to the user's account. It is valid for ten minutes.
    /// - Parameters:
    ///   - inviter: The inviting endpoint; `nil` for the operator.
    ///   - session: The inviter's login, which must not be revoked.
    ///   - proof: The inviter's proof, which must not be used.
    func make(
        subject: String,
        inviter: Invitation.Inviter? = nil,
        session: String? = nil,
        proof: DPoPProof? = nil
    ) async throws(IssuerError) -> Secret<String> {
        let code = InvitationCode()
        let now = context.now()
        let expires = Milliseconds(clamping: now.count + Invitation.life)
        try await context.store.write { records in
            guard try records.hasUser(subject) else { throw IssuerError.unknownUser }
            if let session {
                // Checked in the transaction that stores the invitation, so that a later revocation of the login finds the invitation.
                guard let family = try records.family(session: session), family.revoked == nil else { throw IssuerError.unknownLogin }
            }
            if let proof, try !records.use(proof.id, until: proof.ends) { throw IssuerError.usedProof }
            try records.forget(before: now)
            guard try records.openInvitations(of: subject, now: now) < Invitation.maximumOpen else { throw IssuerError.tooManyInvitations }
            try records.insert(Invitation(code: code.digest, subject: subject, inviter: inviter, expires: expires))
        }
        await context.log(.info, "made an invitation", of: subject)
        return code.text
    }

    /// Creates an invitation for a device that may invite others.
    func answer(_ presented: InviteCredentials) async throws(OAuthError) -> InvitationResponse {
        let now = context.now()
        let inviter = try await check(presented, now: now)
        let key = inviter.proof.key
        guard await mayInvite(key.jwkThumbprint, inviter.subject) else {
            throw .denied("this device may not invite before another one has approved it: approve this device on another one first")
        }
        do throws(IssuerError) {
            let endpoint = Invitation.Inviter(key: key.jwkThumbprint, endpoint: EndpointID(key))
            let code = try await make(subject: inviter.subject, inviter: endpoint, session: inviter.session, proof: inviter.proof)
            return InvitationResponse(code: code, relayURL: context.origins.first)
        } catch {
            switch error {
            case .tooManyInvitations: throw .later(error.description, after: Milliseconds(clamping: Invitation.life))
            case .unknownUser: throw .unauthorized("the token's account is gone")
            case .usedProof:
                var rejection = OAuthError.usedProof
                rejection.status = 401
                throw rejection
            case .unknownLogin: throw .unauthorized("the login was revoked; join again")
            default: throw context.failed(error)
            }
        }
    }

    /// The requesting endpoint. Its token is from this issuer, and the relay accepts it now.
    private struct Caller {
        var subject: String
        var session: String
        var proof: DPoPProof
    }

    private func check(_ presented: InviteCredentials, now: Milliseconds) async throws(OAuthError) -> Caller {
        guard let claims = try await accessTokens.claims(of: presented.token) else {
            throw .unauthorized("the token is not an access token of this issuer")
        }
        guard now.count < claims.exp.time.count, claims.iat.time.count <= now.count + DPoPProof.leeway else {
            throw .unauthorized("the token has expired; refresh it")
        }
        guard let session = claims.sid else { throw .unauthorized("the token does not belong to a login") }
        let proof = try checkBinding(of: claims, presented, now: now)
        let family = try await context.read { try $0.family(session: session) }
        guard let family, family.revoked == nil else { throw .unauthorized("the login was revoked; join again") }
        guard let scopes = Scopes(parsing: claims.scope), scopes.names.contains("relay.device.register") else {
            throw OAuthError(.insufficientScope, "the token needs the scope relay.device.register", status: 403)
        }
        // Checked last, so that only requests with a valid token count.
        if let rejection = limits.rejection(of: .init(), .invitations, subject: claims.sub, login: claims.sid, now: now) { throw rejection }
        return Caller(subject: claims.sub, session: session, proof: proof)
    }

    /// Checks the proof of the key that the token is bound to. A token without a binding could come from any client and
    /// identifies no endpoint.
    private func checkBinding(of claims: AccessTokenClaims, _ presented: InviteCredentials, now: Milliseconds) throws(OAuthError)
        -> DPoPProof
    {
        guard let bound = claims.cnf?.jkt else {
            throw .denied("the token is bound to no key, so it may not invite; join with a DPoP proof")
        }
        guard presented.scheme == .dpop else { throw .unauthorized("this token is for the scheme DPoP, with a proof of its key") }
        guard let text = presented.proofs.first, presented.proofs.count == 1 else {
            throw OAuthError(.invalidDPoPProof, "one DPoP header is needed", status: 401)
        }
        let proof: DPoPProof
        do throws(DPoPError) {
            proof = try DPoPProof(
                checking: text,
                method: "POST",
                urls: context.urls.map { $0 + "/invitations" },
                now: now,
                accessToken: presented.token
            )
        } catch {
            throw OAuthError(.invalidDPoPProof, error.description, status: 401)
        }
        guard proof.key.jwkThumbprint == bound else { throw .unauthorized("the token is bound to another key than the proof's") }
        return proof
    }
}

extension OAuthError {
    fileprivate static func denied(_ description: String) -> OAuthError { OAuthError(.accessDenied, description, status: 403) }

    fileprivate static func unauthorized(_ description: String) -> OAuthError { OAuthError(.invalidToken, description, status: 401) }
}
