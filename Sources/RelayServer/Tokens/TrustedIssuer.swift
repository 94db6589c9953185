// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// An issuer whose access tokens the relay accepts, and the requirements on them.
package struct TrustedIssuer: Sendable {
    /// The key under which its identities are stored: its URL, or `embedded` for the issuer in this process.
    package var key: String
    /// The exact values of `iss`. There is more than one only if an issuer has several addresses.
    package var urls: Set<String>
    package var audience: AudienceRule
    package var check: Check
    /// The name of the claim with the scopes: one text separated by spaces, or a list.
    package var scopesClaim = "scope"
    /// Whether the scopes of a token limit what it permits. Otherwise every token of the issuer permits everything, because
    /// some providers cannot define the relay's scopes.
    package var needsScopes = true
    /// Whether the claim `invited_by` is trusted: the endpoint whose invitation started the login.
    package var namesInviters = false
    /// Whether it ends the logins of a revoked endpoint. Otherwise tokens from before a revocation let no further endpoint in.
    package var endsLogins = false
    /// The name of the claim that identifies the account's owner.
    package var accountClaim = "sub"
    /// Whether an unknown identity creates an account.
    package var autoProvision = true
    /// How often the issuer is asked again about the token of an open channel.
    package var recheck: Milliseconds = 60_000
    /// The clients whose tokens are accepted; `nil` for all.
    package var allowedClients: Set<String>?
    /// Whether `typ` must name an access token (RFC 9068). Some providers omit it.
    package var typeCheck = TypeCheck.strict

    package init(key: String, urls: Set<String>, audience: AudienceRule, check: Check) {
        self.key = key
        self.urls = urls
        self.audience = audience
        self.check = check
    }

    /// How its tokens are verified.
    package enum Check: Sendable {
        /// By its keys: they are signed JSON Web Tokens.
        case keys(JWKSource)
        /// By asking it about each token.
        case introspection(IntrospectionSource)
    }

    package enum TypeCheck: String, Sendable {
        /// Only `at+jwt`.
        case strict
        /// Also `JWT`, or no value.
        case relaxed
    }

    /// The required audience of a token.
    package enum AudienceRule: Hashable, Sendable, CustomStringConvertible {
        /// Exactly this audience.
        case exactly(String)
        /// At least one of these audiences.
        case anyOf(Set<String>)
        /// This scope, in the scopes or in the audience: some providers write it there.
        case scope(String)

        package var description: String {
            switch self {
            case .exactly(let audience): audience
            case .anyOf(let audiences): "one of \(audiences.sorted().joined(separator: ", "))"
            case .scope(let scope): "a list with the scope \(scope)"
            }
        }
    }
}

/// Fetches an issuer's keys. It returns or throws in bounded time.
package typealias JWKSource = @Sendable () async throws -> FetchedKeys

/// Asks an issuer about a token. It returns or throws in bounded time.
package typealias IntrospectionSource = @Sendable (Secret<String>) async throws -> IntrospectionAnswer

/// An issuer's keys as fetched.
package struct FetchedKeys: Sendable {
    package var keys: JSONWebKeySet
    /// How long the issuer permits caching; `nil` if it does not say.
    package var freshFor: Milliseconds?

    package init(_ keys: JSONWebKeySet, freshFor: Milliseconds? = nil) {
        self.keys = keys
        self.freshFor = freshFor
    }
}

extension TrustedIssuer {
    /// Asks the issuer for its keys, or about an invented token.
    /// - Returns: Why it does not answer, for people; `nil` if it does. It contains nothing of the answer.
    package func obstacle() async -> String? {
        do {
            switch check {
            case .keys(let read): _ = try await read()
            case .introspection(let ask): _ = try await ask(Secret("invented-\(UInt64.random(in: .min ... .max))"))
            }
            return nil
        } catch IssuerHTTPClient.Failure.credentialsRefused {
            return "it refuses the relay's client id and secret"
        } catch IssuerHTTPClient.Failure.addressMissing {
            return "its metadata names no address for keys, or for questions about tokens"
        } catch IssuerHTTPClient.Failure.addressNotAllowed {
            return "its metadata names an address that is nearer than the issuer"
        } catch IssuerHTTPClient.Failure.status(let status) {
            return "it answers with HTTP status \(status)"
        } catch IssuerHTTPClient.Failure.malformed {
            return "what it publishes is not that of this issuer"
        } catch {
            return IssuerHTTPClient.reason(error)
        }
    }
}
