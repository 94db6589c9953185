// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
package import RelayProtocol

/// Introspection (RFC 7662) for resource servers that the operator has registered.
extension Issuer {
    /// Registers a resource server, or replaces its secret.
    /// - Returns: The secret with which it authenticates by HTTP Basic.
    package func addResourceServer(_ name: String) async throws(IssuerError) -> Secret<String> {
        // Only characters that OAuth's encoding for HTTP Basic (RFC 6749 §2.3.1) does not change.
        guard (1...64).contains(name.utf8.count), FormCoding.encode(name).utf8.elementsEqual(name.utf8) else {
            throw .resourceServerNameInvalid
        }
        let secret = Secret(Base64.url.encode(randomBytes(32)))
        let digest = Digest256(hashing: Array(secret.exposed.utf8))
        try await store.write { try $0.setResourceServer(name, secret: digest) }
        return secret
    }

    /// Removes a resource server.
    /// - Returns: Whether it existed.
    package func removeResourceServer(_ name: String) async throws(IssuerError) -> Bool {
        try await store.write { try $0.removeResourceServer(name) }
    }

    /// The names of the registered resource servers.
    package func resourceServers() async throws(IssuerError) -> [String] { try await store.read { try $0.resourceServers() } }

    /// The response for a token. Any other text is reported as not active.
    struct Introspection: Encodable, Sendable {
        var active = false
        var scope: String?
        var clientID: String?
        var tokenType: String?
        var exp: Int64?
        var iat: Int64?
        var sub: String?
        var aud: String?
        var iss: String?
        var jti: String?
        var sid: String?
        var cnf: AccessTokenClaims.Confirmation?

        private enum CodingKeys: String, CodingKey {
            case active, scope, exp, iat, sub, aud, iss, jti, sid, cnf
            case clientID = "client_id"
            case tokenType = "token_type"
        }
    }

    /// - Parameter authorization: The values of the `Authorization` header.
    func introspect(_ form: Form, authorization: [String]) async throws(OAuthError) -> Introspection {
        try await checkResourceServer(authorization)
        let text = try form.required("token")
        return if let token = RefreshToken(parsing: text) { try await introspect(token) } else { try await introspect(text) }
    }

    private func introspect(_ text: String) async throws(OAuthError) -> Introspection {
        let now = now()
        guard let claims = try await verifiedClaims(text), now.count < claims.exp.time.count, let session = claims.sid else {
            return Introspection()
        }
        let family = try await answering { () async throws(IssuerError) in try await store.read { try $0.family(session: session) } }
        guard let family, family.revoked == nil else { return Introspection() }
        return Introspection(
            active: true,
            scope: claims.scope,
            clientID: claims.clientID,
            tokenType: claims.cnf == nil ? "Bearer" : "DPoP",
            exp: claims.exp.time.count / 1_000,
            iat: claims.iat.time.count / 1_000,
            sub: claims.sub,
            aud: claims.aud,
            iss: claims.iss,
            jti: claims.jti,
            sid: claims.sid,
            cnf: claims.cnf
        )
    }

    private func introspect(_ token: RefreshToken) async throws(OAuthError) -> Introspection {
        let now = now()
        guard token.isAuthentic(by: master.refreshTokenKey) else { return Introspection() }
        let family = try await answering { () async throws(IssuerError) in try await store.read { try $0.family(token.family) } }
        guard let family, family.decision(token.number, client: family.client, key: family.key, now: now) == .rotate else {
            return Introspection()
        }
        return Introspection(
            active: true,
            scope: family.scopes.description,
            clientID: family.client,
            exp: min(family.rotated.count + RefreshFamily.idleLife, family.created.count + RefreshFamily.wholeLife) / 1_000,
            sub: family.subject,
            sid: family.id.session,
            cnf: family.key.map(AccessTokenClaims.Confirmation.init(jkt:))
        )
    }

    private func checkResourceServer(_ authorization: [String]) async throws(OAuthError) {
        let refused = OAuthError(.invalidClient, "introspection needs the name and secret of a resource server, by HTTP Basic", status: 401)
        guard let asking = BasicCredentials(authorization: authorization) else { throw refused }
        let known = try await answering { () async throws(IssuerError) in
            try await store.read { try $0.secret(ofResourceServer: asking.name) }
        }
        guard known == Digest256(hashing: Array(asking.secret.exposed.utf8)) else { throw refused }
    }

    /// Returns the claims of an access token that this issuer signed for its relay; `nil` for any other text. The time is not checked.
    func verifiedClaims(_ text: String) async throws(OAuthError) -> AccessTokenClaims? {
        guard let token = try? SignedJSON(parsing: text), token.header.alg == "ES256", token.header.typ == "at+jwt",
            let claims = try? token.claims(AccessTokenClaims.self)
        else { return nil }
        let keys = try await answering { () async throws(IssuerError) in try await publishedKeys() }
        guard let key = keys.keys.first(where: { $0.kid == token.header.kid })?.signingKey, key.isValid(token.signature, for: token.signed),
            urls.contains(claims.iss), claims.aud == settings.audience
        else { return nil }
        return claims
    }
}
