// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

extension IssuerClient {
    /// Redeems the code of a join link for tokens.
    func redeem(
        _ code: Secret<String>,
        clientID: String,
        scopes: Set<AccessTokenScope>,
        into store: some TokenReceiver,
        _ exchange: UnstoredExchange
    ) async throws -> StoredTokens {
        let issuer = try await discover(.relaysOwn)
        return try await tokens(
            from: issuer,
            form: [
                ("grant_type", Secret("urn:ietf:params:oauth:grant-type:pre-authorized_code")),
                ("pre-authorized_code", code),
                ("scope", Secret(issuer.scopeParameter(for: scopes))),
            ],
            clientID: clientID,
            into: store,
            exchange
        )
    }

    /// Refreshes tokens.
    func refresh(
        _ tokens: StoredTokens,
        _ refreshToken: Secret<String>,
        at issuer: Issuer,
        into store: some TokenReceiver
    ) async throws -> StoredTokens {
        var form = [("grant_type", Secret("refresh_token")), ("refresh_token", refreshToken)]
        // Without `resource`, the scopes name what the token is for. Other refreshes keep what was granted (RFC 6749 §6).
        if resource(at: issuer).isEmpty { form.append(("scope", Secret(scopeParameter(for: AccessTokenScope.all, at: issuer)))) }
        return try await self.tokens(
            from: issuer,
            form: form,
            clientID: tokens.clientID,
            into: store
        ) { successor in
            // An issuer that does not rotate refresh tokens sends none (RFC 6749 §6).
            successor.refreshToken = successor.refreshToken ?? refreshToken
            if successor.scopes.isEmpty { successor.scopes = tokens.scopes }
        }
    }

    /// Ends the login of the tokens (RFC 7009). An unknown token is not an error.
    /// - Returns: Whether a refresh token and a revocation endpoint were available.
    func revoke(_ tokens: StoredTokens) async throws(IssuerClientError) -> Bool {
        guard let refreshToken = tokens.refreshToken else { return false }
        let issuer = try await discover(tokens.choice)
        guard let endpoint = issuer.revocationEndpoint else { return false }
        _ = try await post(
            endpoint,
            of: issuer,
            form: [("token", refreshToken), ("token_type_hint", Secret("refresh_token")), ("client_id", Secret(tokens.clientID))]
        )
        return true
    }

    /// Redeems a grant at the token endpoint, and stores the tokens. The grant works once. So this is the only place that sends one: the place
    /// for the tokens is made ready before, and from the sending to the storing neither a cancelled task nor the end of the program
    /// comes in between; see `UnstoredExchange`.
    func tokens(
        from issuer: Issuer,
        form: [(String, Secret<String>)],
        clientID: String,
        into store: some TokenReceiver,
        _ exchange: UnstoredExchange = UnstoredExchange(),
        completing complete: (inout StoredTokens) -> Void = { _ in }
    ) async throws -> StoredTokens {
        try store.prepare()
        defer { exchange.end() }
        let form = form + [("client_id", Secret(clientID))] + resource(at: issuer)
        var tokens = try tokens(in: try await post(issuer.tokenEndpoint, of: issuer, form: form, exchange: exchange), issuer, clientID)
        complete(&tokens)
        try store.receive(tokens)
        return tokens
    }

    private func tokens(in answer: HTTPAnswer, _ issuer: Issuer, _ clientID: String) throws(IssuerClientError) -> StoredTokens {
        let name = issuer.foreignName
        let answer: TokenResponse = try content(answer, of: name)
        guard ["dpop", "bearer"].contains(answer.tokenType.lowercased()) else {
            throw .malformed("token_type is neither DPoP nor Bearer", issuer: name)
        }
        guard Self.isToken(answer.accessToken.exposed), answer.refreshToken.map({ Self.isToken($0.exposed) }) ?? true else {
            throw .malformed("access_token or refresh_token is empty, too long or not text", issuer: name)
        }
        // The default life is short, and the maximum is one day.
        let life = Int64(min(max(answer.expiresIn?.value ?? 300, 0), 86_400) * 1_000)
        return StoredTokens(
            issuer: issuer.url.text,
            clientID: clientID,
            scopes: (answer.scope ?? "").split(separator: " ").prefix(64).map(String.init),
            accessToken: answer.accessToken,
            accessTokenExpires: endpoint.now() + life,
            accessTokenLife: life,
            refreshToken: answer.refreshToken,
            isOtherIssuer: !issuer.isRelaysOwn,
            userScopes: issuer.isRelaysOwn ? nil : userScopes
        )
    }

    private static func isToken(_ text: String) -> Bool {
        (1...SignedJSON.maximumBytes).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}

/// Takes the tokens of an exchange.
protocol TokenReceiver: Sendable {
    /// Makes the place for the tokens ready, so that as little as possible can fail after the exchange.
    func prepare() throws
    func receive(_ tokens: StoredTokens) throws
}

/// Stores the tokens as the endpoint's login.
struct LoginReceiver: TokenReceiver {
    let tokens: any LockedTokens

    func prepare() throws { try tokens.reserve() }
    func receive(_ tokens: StoredTokens) throws { try self.tokens.write(tokens) }
}

/// Stores nothing: the login is used once.
struct NoReceiver: TokenReceiver {
    func prepare() {}
    func receive(_ tokens: StoredTokens) {}
}

extension StoredTokens {
    /// The issuer that refreshes and revokes them. The URL of the relay's own issuer changes when the relay moves.
    var choice: IssuerChoice { isOtherIssuer ?? false ? .named(issuer) : .relaysOwn }
}

/// A token response (RFC 6749 §5.1).
private struct TokenResponse: Decodable {
    var accessToken: Secret<String>
    var tokenType: String
    var expiresIn: IssuerSeconds?
    var refreshToken: Secret<String>?
    var scope: String?

    private enum CodingKeys: String, CodingKey {
        case scope
        case accessToken = "access_token"
        case tokenType = "token_type"
        case expiresIn = "expires_in"
        case refreshToken = "refresh_token"
    }
}

extension AccessToken {
    /// Whether the token needs a proof of a key. An opaque token counts as bound: a bearer token may be presented with a
    /// proof, but a bound one must be.
    var isBound: Bool {
        guard let claims = try? SignedJSON(parsing: value).claims(JSONValue.self) else { return true }
        return claims["cnf"]?["jkt"] != nil
    }
}
