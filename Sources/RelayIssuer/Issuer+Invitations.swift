// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

extension Issuer {
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
                throw Issuer.unauthorized("one Authorization header is needed")
            }
            let parts = only.split(separator: " ", maxSplits: 1)
            switch (parts.first?.lowercased(), parts.count) {
            case ("dpop", 2): scheme = .dpop
            case ("bearer", 2): scheme = .bearer
            default: throw Issuer.unauthorized("the Authorization header must be DPoP or Bearer with an access token")
            }
            token = parts.last.map(String.init) ?? ""
            self.proofs = proofs
        }
    }

    /// The response with a new invitation.
    struct InvitationResponse: Encodable, Sendable {
        var code: Secret<String>
        var expiresIn = Invitation.life / 1_000

        private enum CodingKeys: String, CodingKey {
            case code
            case expiresIn = "expires_in"
        }
    }

    /// Creates an invitation for a device that may invite others.
    func invite(_ presented: InviteCredentials) async throws(OAuthError) -> InvitationResponse {
        let now = now()
        let inviter = try await check(presented, now: now)
        guard await settings.mayInvite(inviter.key.jwkThumbprint, inviter.subject) else {
            throw Issuer.denied("this device may not invite before another one has approved it: approve this device on another one first")
        }
        let result: Result<Secret<String>, OAuthError> = try await answering { () async throws(IssuerError) in
            do throws(IssuerError) {
                return .success(
                    try await makeInvitation(
                        subject: inviter.subject,
                        inviter: .init(key: inviter.key.jwkThumbprint, endpoint: EndpointID(inviter.key)),
                        session: inviter.session
                    )
                )
            } catch {
                switch error {
                case .tooManyInvitations:
                    return .failure(
                        OAuthError(
                            .temporarilyUnavailable,
                            error.description,
                            status: 429,
                            retryAfter: Milliseconds(clamping: Invitation.life)
                        )
                    )
                case .unknownUser: return .failure(Issuer.unauthorized("the token's account is gone"))
                case .unknownLogin: return .failure(Issuer.unauthorized("the login was revoked; join again"))
                default: throw error
                }
            }
        }
        return InvitationResponse(code: try result.get())
    }

    /// The requesting endpoint. Its token is from this issuer, and the relay accepts it now.
    private struct Caller {
        var subject: String
        var session: String
        var key: SigningPublicKey
    }

    private func check(_ presented: InviteCredentials, now: Milliseconds) async throws(OAuthError) -> Caller {
        guard let claims = try await verifiedClaims(presented.token) else {
            throw Issuer.unauthorized("the token is not an access token of this issuer")
        }
        guard now.count < claims.exp.time.count, claims.iat.time.count <= now.count + DPoPProof.leeway else {
            throw Issuer.unauthorized("the token has expired; refresh it")
        }
        guard let session = claims.sid else { throw Issuer.unauthorized("the token does not belong to a login") }
        let proof = try checkBinding(of: claims, presented, now: now)
        let family = try await answering { () async throws(IssuerError) in try await store.read { try $0.family(session: session) } }
        guard let family, family.revoked == nil else { throw Issuer.unauthorized("the login was revoked; join again") }
        guard let scopes = Scopes(parsing: claims.scope), scopes.names.contains("relay.device.register") else {
            throw OAuthError(.insufficientScope, "the token needs the scope relay.device.register", status: 403)
        }
        // Checked last, so that only requests with a valid token fill the replay cache.
        if var rejection = rejection(of: proof, .invitations, subject: claims.sub, login: claims.sid, now: now) {
            if rejection.code == .invalidDPoPProof { rejection.status = 401 }
            throw rejection
        }
        return Caller(subject: claims.sub, session: session, key: proof.key)
    }

    /// Checks the proof of the key that the token is bound to. A token without a binding could come from any client and
    /// identifies no endpoint.
    private func checkBinding(of claims: AccessTokenClaims, _ presented: InviteCredentials, now: Milliseconds) throws(OAuthError)
        -> DPoPProof
    {
        guard let bound = claims.cnf?.jkt else {
            throw Issuer.denied("the token is bound to no key, so it may not invite; join with a DPoP proof")
        }
        guard presented.scheme == .dpop else { throw Issuer.unauthorized("this token is for the scheme DPoP, with a proof of its key") }
        guard let text = presented.proofs.first, presented.proofs.count == 1 else {
            throw OAuthError(.invalidDPoPProof, "one DPoP header is needed", status: 401)
        }
        let proof: DPoPProof
        do throws(DPoPError) {
            proof = try DPoPProof(
                checking: text,
                method: "POST",
                urls: urls.map { $0 + "/invitations" },
                now: now,
                accessToken: presented.token
            )
        } catch {
            throw OAuthError(.invalidDPoPProof, error.description, status: 401)
        }
        guard proof.key.jwkThumbprint == bound else { throw Issuer.unauthorized("the token is bound to another key than the proof's") }
        return proof
    }

    private static func denied(_ description: String) -> OAuthError { OAuthError(.accessDenied, description, status: 403) }

    private static func unauthorized(_ description: String) -> OAuthError { OAuthError(.invalidToken, description, status: 401) }
}
