// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The claims of an access token. Issuers use different types for the same claim.
struct TokenClaims: JSONReadable, Sendable {
    private let claims: JSONValue

    init(json: JSONValue) throws(JSONError) {
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

    /// When the user signed in, or else when the token was made. `nil` if the issuer says neither, or a time that cannot be read.
    var authenticated: Milliseconds? {
        do throws(TokenError) {
            if let time = try time("auth_time") { return time }
            return try time("iat")
        } catch {
            return nil
        }
    }

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
