// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A request to the token endpoint.
package struct TokenRequest: Sendable {
    static let preAuthorizedCode = "urn:ietf:params:oauth:grant-type:pre-authorized_code"

    static let deviceCode = "urn:ietf:params:oauth:grant-type:device_code"

    /// The maximum length of a client id. The id of a registered client contains its name.
    static let maximumClientBytes = 512

    enum Grant: Sendable {
        case device(Digest256)
        case code(Digest256, redirect: String, verifier: Secret<String>)
        case invitation(InvitationCode)
        case refresh(RefreshToken)
    }

    var grant: Grant
    var client: String
    /// The requested scopes; `nil` for all scopes of the grant.
    var scopes: Scopes?

    package init(_ form: Form) throws(OAuthError) {
        switch try form.required("grant_type") {
        case TokenRequest.preAuthorizedCode:
            guard let code = InvitationCode(parsing: try form.required("pre-authorized_code")) else { throw TokenRequest.unknownCode }
            self.grant = .invitation(code)
        case "refresh_token":
            guard let token = RefreshToken(parsing: try form.required("refresh_token")) else { throw TokenRequest.unknownToken }
            self.grant = .refresh(token)
        case TokenRequest.deviceCode:
            self.grant = .device(Digest256(hashing: Array(try form.required("device_code").utf8)))
        case "authorization_code":
            let code = Digest256(hashing: Array(try form.required("code").utf8))
            let verifier = try form.required("code_verifier")
            guard AuthorizationCode.isVerifier(verifier) else {
                throw OAuthError(.invalidRequest, "code_verifier has 43 to 128 unreserved characters")
            }
            self.grant = .code(code, redirect: try form.required("redirect_uri"), verifier: Secret(verifier))
        default:
            throw OAuthError(.unsupportedGrantType, "grant_type must be one that the issuer's metadata lists")
        }
        self.client = try TokenRequest.client(form)
        self.scopes = try TokenRequest.scopes(form)
    }

    static func scopes(_ form: Form) throws(OAuthError) -> Scopes? {
        guard let text = form["scope"] else { return nil }
        guard let scopes = Scopes(requested: text) else { throw OAuthError(.invalidScope, "scope may hold \(Scopes.all)") }
        return scopes
    }

    /// Returns the id of a public client: the name that its platform gives the app, or the id that the issuer gave at its registration.
    static func client(_ form: Form) throws(OAuthError) -> String {
        let client = try form.required("client_id")
        let labels = client.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let isName =
            labels.count >= 2 && client.utf8.count <= maximumClientBytes
            && labels.allSatisfy { label in
                !label.isEmpty
                    && label.allSatisfy {
                        switch $0 {
                        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                            UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                            true
                        default: false
                        }
                    }
            }
        guard isName else {
            throw OAuthError(.invalidClient, "client_id must be a name in reverse DNS form, such as com.example.app")
        }
        return client
    }

    // The text is the same for an unknown, used and expired code or token, so that a guess reveals nothing.
    static let unknownCode = OAuthError(.invalidGrant, "the invitation is unknown, already used or expired; ask for a new one")
    static let unknownAuthorizationCode = OAuthError(
        .invalidGrant,
        "the code is unknown, already used or expired, or was issued for another client, redirect_uri or code_verifier; begin again"
    )
    static let unknownDeviceCode = OAuthError(.invalidGrant, "the device code is unknown or already used; begin again")
    static let unknownToken = OAuthError(.invalidGrant, "the refresh token is unknown, replaced, revoked or expired; join again")
    /// Only the holder of a token that this issuer signed gets this text. The same holds for the next one.
    static let revokedEndpoint = OAuthError(
        .invalidGrant,
        "this device was revoked; remove the account and join again",
        reason: .endpointRevoked
    )
    /// Both devices that used one link get this text.
    static let reusedLink = OAuthError(
        .invalidGrant,
        "two devices used one join link, so the login of the first one has ended; each device needs a link of its own",
        reason: .linkReused
    )
    static let forgottenLogin = OAuthError(
        .invalidGrant,
        "this login is not known here any more: it expired long ago, or began after the backup that the relay was restored from; join again"
    )
}

/// A response of the token endpoint (RFC 6749 §5.1).
struct TokenResponse: Sendable {
    /// The user of the grant. The response does not contain it.
    var subject: String
    var accessToken: Secret<String>
    var isBound: Bool
    var refreshToken: Secret<String>?
    var scopes: Scopes
}

extension TokenResponse: Encodable {
    private enum CodingKeys: String, CodingKey {
        case scope
        case accessToken = "access_token"
        case tokenType = "token_type"
        case expiresIn = "expires_in"
        case refreshToken = "refresh_token"
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(accessToken.exposed, forKey: .accessToken)
        try container.encode(isBound ? "DPoP" : "Bearer", forKey: .tokenType)
        try container.encode(AccessTokenClaims.life / 1_000, forKey: .expiresIn)
        try container.encodeIfPresent(refreshToken?.exposed, forKey: .refreshToken)
        try container.encode(scopes.description, forKey: .scope)
    }
}
