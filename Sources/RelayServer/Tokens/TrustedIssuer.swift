// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// An issuer whose access tokens the relay takes, and what it asks of them.
package struct TrustedIssuer: Sendable {
    /// Under what its identities are kept: its URL, or `embedded` for the issuer in this process.
    package var key: String
    /// What `iss` may be, exactly. More than one only where one issuer is known under several addresses.
    package var urls: Set<String>
    package var audience: AudienceRule
    package var keys: JWKSource
    /// The claim with the scopes: one text with spaces between, or a list.
    package var scopesClaim = "scope"
    /// Whether a token allows what its scopes name. Without, each of the issuer's tokens allows everything: some providers know no scopes
    /// of ours.
    package var needsScopes = true
    /// Whether `invited_by` in its tokens is believed: the endpoint whose invitation a login began with.
    package var namesInviters = false
    /// The claim that names the account's owner.
    package var accountClaim = "sub"
    /// Whether an identity seen for the first time makes an account.
    package var autoProvision = true
    /// The clients whose tokens are taken; `nil` for all.
    package var allowedClients: Set<String>?
    /// Whether `typ` must say that the token is an access token (RFC 9068). Some providers leave it out.
    package var typeCheck = TypeCheck.strict

    package init(key: String, urls: Set<String>, audience: AudienceRule, keys: @escaping JWKSource) {
        self.key = key
        self.urls = urls
        self.audience = audience
        self.keys = keys
    }

    package enum TypeCheck: Sendable {
        /// `at+jwt`.
        case strict
        /// Also `JWT`, and none.
        case relaxed
    }

    /// For whom a token must be.
    package enum AudienceRule: Hashable, Sendable {
        /// For this one and no other.
        case exactly(String)
        /// For at least one of these.
        case anyOf(Set<String>)
        /// With this scope, in the scopes or in the audience: some providers write it there.
        case scope(String)
    }
}

/// Where an issuer's keys come from. It answers or throws in bounded time.
package typealias JWKSource = @Sendable () async throws -> FetchedKeys

/// An issuer's keys, as they were just read.
package struct FetchedKeys: Sendable {
    package var keys: JSONWebKeySet
    /// How long the issuer says they may be kept; `nil` if it says nothing.
    package var freshFor: Milliseconds?

    package init(_ keys: JSONWebKeySet, freshFor: Milliseconds? = nil) {
        self.keys = keys
        self.freshFor = freshFor
    }
}
