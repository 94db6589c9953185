// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The claims of an access token. Issuers use different types for the same claim.
package struct TokenClaims: JSONReadable, Sendable {
    private let claims: JSONValue

    package init(json: JSONValue) throws(JSONError) {
        _ = try json.object()
        self.claims = json
    }

    func text(_ name: String) -> String? { claims[name].flatMap { try? String(json: $0) } }

    /// A list of texts. A single text counts as a list of one.
    func texts(_ name: String) -> [String]? {
        claims[name].flatMap { claim in text(name).map { [$0] } ?? (try? [String](json: claim)) }
    }

    /// A time; `nil` if the claim is missing. Throws if it has another type.
    func time(_ name: String) throws(TokenError) -> Milliseconds? {
        guard let claim = claims[name] else { return nil }
        guard let date = try? NumericDate(json: claim) else { throw .claims }
        return date.time
    }

    /// When the user signed in; `nil` if the issuer does not say it, or not as a time. When the token was made (`iat`) says nothing about
    /// that: it may come from a refresh.
    var authenticated: Milliseconds? { try? time("auth_time") }

    /// What the token is bound to.
    enum Binding: Equatable {
        case nothing
        case key(thumbprint: String)
        case other
    }

    var binding: Binding {
        guard let confirmation = claims["cnf"] else { return .nothing }
        guard (try? confirmation.object().count) == 1, let thumbprint = confirmation["jkt"].flatMap({ try? String(json: $0) }) else {
            return .other
        }
        return .key(thumbprint: thumbprint)
    }
}
