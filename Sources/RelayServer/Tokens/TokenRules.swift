// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The content of a valid access token.
package struct VerifiedToken: Hashable, Sendable {
    package var identity: Identity
    /// Whether an unknown identity creates an account.
    package var mayMakeAccount: Bool
    package var expires: Milliseconds
    package var scopes: Set<String>
    /// What the token permits at the relay.
    package var allowed: Set<RelayScope>
    /// The client that the token was issued to, if the token names it.
    package var client: String?
    /// The login of the token, if the token names it. An issuer revokes a login by this value.
    package var session: String?
    /// The endpoint whose invitation started the login, if the issuer names it.
    package var inviter: EndpointID?
    /// When the issuer is to be asked again whether the token is still active; `nil` if it is not asked.
    package var recheck: Milliseconds?
    /// When the user signed in (`auth_time`); `nil` if the issuer does not say it.
    package var authenticated: Milliseconds?
    /// Whether the token is bound to a key, which was checked.
    package var isBound: Bool
    /// When the token was made; `nil` if its age does not matter, because its issuer ends the logins of revoked endpoints.
    package var made: Milliseconds?
    /// What the issuer calls the user, the best name first.
    package var names: [String] = []
    /// The tokens of the same key, if its issuer removes keys.
    package var signedAlike: Login?

    package init(
        identity: Identity,
        mayMakeAccount: Bool,
        expires: Milliseconds,
        scopes: Set<String> = [],
        allowed: Set<RelayScope> = [],
        client: String? = nil,
        session: String? = nil,
        inviter: EndpointID? = nil,
        authenticated: Milliseconds? = nil,
        isBound: Bool = false,
        made: Milliseconds? = nil
    ) {
        self.identity = identity
        self.mayMakeAccount = mayMakeAccount
        self.expires = expires
        self.scopes = scopes
        self.allowed = allowed
        self.client = client
        self.session = session
        self.inviter = inviter
        self.authenticated = authenticated
        self.isBound = isBound
        self.made = made
    }

    package var login: Login? { session.map { Login(issuer: identity.issuer, session: $0) } }
}

/// The relay's requirements on an access token, apart from its signature.
package struct TokenRules {
    /// The permitted clock difference between issuer and relay, in milliseconds.
    package static let leeway: Int64 = 60_000
    static let maximumSubjectBytes = 255

    let issuer: TrustedIssuer

    package init(issuer: TrustedIssuer) { self.issuer = issuer }

    /// How old a token that does not say when it was made may be.
    static let assumedLife: Int64 = 24 * 3_600_000

    private func fault(_ error: TokenError, _ name: String? = nil, expected: String? = nil, found: String? = nil) -> TokenFault {
        TokenFault(error, issuer: issuer.key, name: name, expected: expected, found: found)
    }

    package func checkType(_ header: SignedJSON.Header) throws(TokenFault) {
        switch (header.typ?.lowercased(), issuer.typeCheck) {
        case ("at+jwt", _), ("application/at+jwt", _), ("jwt", .relaxed), (nil, .relaxed): return
        case (_, .strict): throw fault(.type, "typ", expected: "at+jwt", found: header.typ ?? "")
        case (_, .relaxed): throw fault(.type, "typ", expected: "at+jwt or JWT", found: header.typ ?? "")
        }
    }

    private func time(_ name: String, of claims: TokenClaims) throws(TokenFault) -> Milliseconds? {
        do throws(TokenError) { return try claims.time(name) } catch { throw fault(error, name, expected: "a time") }
    }

    /// - Parameter key: What a bound token must be bound to; `nil` for any key.
    package func check(_ claims: TokenClaims, key: SigningPublicKey?, now: Milliseconds) throws(TokenFault) -> VerifiedToken {
        guard let expires = try time("exp", of: claims) else { throw fault(.claims, "exp", expected: "a time") }
        guard now.count < expires.count + TokenRules.leeway else { throw fault(.expired, "exp", found: "\(expires.count / 1_000)") }
        let issued = try time("iat", of: claims)
        for (name, start) in [("nbf", try time("nbf", of: claims)), ("iat", issued)] {
            if let start, start.count > now.count + TokenRules.leeway {
                throw fault(.notYetValid, name, found: "\(start.count / 1_000)")
            }
        }
        let audiences = Set(claims.texts("aud") ?? [])
        let scopes = Set((claims.texts(issuer.scopesClaim) ?? []).flatMap { $0.split(separator: " ").map(String.init) })
        let isForUs =
            switch issuer.audience {
            case .exactly(let audience): audiences == [audience]
            case .anyOf(let allowed): !audiences.isDisjoint(with: allowed)
            case .scope(let scope): scopes.contains(scope) || audiences.contains { $0.split(separator: " ").contains { $0 == scope } }
            }
        guard isForUs, audiences.allSatisfy(Self.isASCII) else {
            throw fault(.audience, "aud", expected: "\(issuer.audience)", found: audiences.sorted().joined(separator: ", "))
        }
        let client = claims.text("client_id") ?? claims.text("azp")
        if let allowed = issuer.allowedClients {
            guard let client, Self.isASCII(client), allowed.contains(client) else {
                throw fault(.client, "client_id", expected: "one of allowedClients", found: client ?? "")
            }
        }
        guard let subject = claims.text(issuer.accountClaim), Self.isSubject(subject) else {
            throw fault(.claims, issuer.accountClaim, expected: "1 to \(Self.maximumSubjectBytes) visible ASCII characters")
        }
        let binding = claims.binding
        switch binding {
        case .nothing: break
        case .key(let thumbprint):
            guard key == nil || thumbprint == key?.jwkThumbprint else {
                throw fault(.boundToOtherKey, "cnf", expected: "this endpoint's key")
            }
        case .other: throw fault(.unknownBinding, "cnf", expected: "a jkt")
        }
        var verified = VerifiedToken(
            identity: Identity(issuer: issuer.key, subject: subject),
            mayMakeAccount: issuer.autoProvision,
            expires: expires,
            scopes: scopes,
            allowed: issuer.needsScopes ? Set(scopes.compactMap(RelayScope.init(rawValue:))) : Set(RelayScope.allCases),
            client: client,
            session: claims.text("sid"),
            // The inviter is only shown to users, so an invalid id is treated as missing.
            inviter: issuer.namesInviters ? claims.text("invited_by").flatMap { try? EndpointID(parsing: $0) } : nil,
            authenticated: claims.authenticated,
            isBound: binding != .nothing,
            made: issuer.endsLogins ? nil : issued ?? Milliseconds(clamping: expires.count - Self.assumedLife)
        )
        verified.names = Self.nameClaims.compactMap { claims.text($0) }
        return verified
    }

    /// The claims that name a user (OpenID Connect Core §5.1, RFC 7662 §2.2). Users choose them, so they only name an account.
    private static let nameClaims = ["preferred_username", "username", "name", "email"]

    /// Whether a text can identify an account's owner.
    package static func isSubject(_ text: String) -> Bool {
        (1...maximumSubjectBytes).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }

    /// Equality of Swift strings is equality of bytes only for ASCII.
    private static func isASCII(_ text: String) -> Bool { text.utf8.allSatisfy { (0x20...0x7E).contains($0) } }
}
