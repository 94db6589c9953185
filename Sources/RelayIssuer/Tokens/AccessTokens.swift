// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The access tokens that this issuer signs for its relay.
struct AccessTokens: Sendable {
    let context: IssuerContext
    let keyRing: KeyRing
    /// The audience of the tokens: the relay.
    let audience: String

    /// - Parameters:
    ///   - key: The thumbprint of the key to which the token is bound.
    ///   - issuer: The issuer URL that received the request.
    func sign(_ granted: Granted, key: String?, at issuer: String, now: Milliseconds) async throws(OAuthError) -> Secret<String> {
        let signer = try await context.answering { () async throws(IssuerError) in try await keyRing.signer(at: now) }
        let claims = AccessTokenClaims(
            issuer: issuer,
            audience: audience,
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
        guard let token = try? claims.signed(by: signer.key, id: signer.id) else { throw .fault }
        return token
    }

    /// Returns the claims of an access token that this issuer signed for its relay; `nil` for any other text. The time is not checked.
    func claims(of text: String) async throws(OAuthError) -> AccessTokenClaims? {
        guard let token = try? SignedJSON(parsing: text), token.header.alg == "ES256", token.header.typ == "at+jwt",
            let claims = try? token.claims(AccessTokenClaims.self)
        else { return nil }
        let keys = try await context.answering { () async throws(IssuerError) in try await keyRing.published(at: context.now()) }
        guard let key = keys.keys.first(where: { $0.kid == token.header.kid })?.signingKey, key.isValid(token.signature, for: token.signed),
            context.urls.contains(claims.iss), claims.aud == audience
        else { return nil }
        return claims
    }
}
