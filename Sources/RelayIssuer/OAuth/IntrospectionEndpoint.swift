// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The response for a token. Any other text is reported as not active.
struct IntrospectionResponse: Encodable, Sendable {
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

/// Introspection (RFC 7662) for resource servers that the operator has registered.
struct IntrospectionEndpoint: Sendable {
    let context: IssuerContext
    let accessTokens: AccessTokens

    /// - Parameter authorization: The values of the `Authorization` header.
    func answer(_ form: Form, authorization: [String]) async throws(OAuthError) -> IntrospectionResponse {
        try await checkResourceServer(authorization)
        let text = try form.required("token")
        return if let token = RefreshToken(parsing: text) { try await introspect(token) } else { try await introspect(text) }
    }

    private func introspect(_ text: String) async throws(OAuthError) -> IntrospectionResponse {
        let now = context.now()
        guard let claims = try await accessTokens.claims(of: text), now.count < claims.exp.time.count, let session = claims.sid else {
            return IntrospectionResponse()
        }
        let family = try await context.read { try $0.family(session: session) }
        guard let family, family.revoked == nil else { return IntrospectionResponse() }
        return IntrospectionResponse(
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

    private func introspect(_ token: RefreshToken) async throws(OAuthError) -> IntrospectionResponse {
        let now = context.now()
        guard token.isAuthentic(by: context.master.refreshTokenKey) else { return IntrospectionResponse() }
        let family = try await context.read { try $0.family(token.family) }
        guard let family, family.decision(token.number, client: family.client, key: family.key, now: now) == .rotate else {
            return IntrospectionResponse()
        }
        return IntrospectionResponse(
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
        let known = try await context.read { try $0.secret(ofResourceServer: asking.name) }
        guard known == Digest256(hashing: Array(asking.secret.exposed.utf8)) else { throw refused }
    }
}
