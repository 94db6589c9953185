// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import ConsoleFiles
package import Crypto
import RelayProtocol

/// An authorization request of a client (RFC 6749 §4.1.1, RFC 7636).
package struct AuthorizationRequest: Sendable {
    static let maximumStateBytes = 1_024

    let client: RegisteredClient
    package let redirect: RedirectURI
    let state: String?
    let challenge: Digest256
    let scopes: Scopes

    package enum Outcome: Sendable {
        case request(AuthorizationRequest)
        /// An error that the client gets at its redirect URI (RFC 6749 §4.1.2.1), if the user goes there.
        /// - location: The redirect URI with the error.
        /// - place: The description of the redirect URI for people.
        case refused(location: String, place: PageText, because: String)
    }

    /// - Parameter key: The key for the codes of registered redirect URIs.
    package static func read(_ query: Form, issuer: String, key: SymmetricKey) throws(OAuthError) -> Outcome {
        guard let client = query["client_id"].flatMap(RegisteredClient.init(id:)) else {
            throw OAuthError(.invalidClient, PageText("error.appUnknown"))
        }
        // No response goes to an address that the client has not registered.
        guard let redirect = query["redirect_uri"].flatMap(RedirectURI.init), client.has(redirect, by: key) else {
            throw OAuthError(.invalidRequest, PageText("error.appAddress"))
        }
        let state = query["state"]
        func refuse(_ code: OAuthError.Code, _ description: String) -> Outcome {
            .refused(
                location: response(redirect, state: state, issuer: issuer, [("error", code.rawValue), ("error_description", description)]),
                place: redirect.place,
                because: description
            )
        }
        if let state, state.utf8.count > maximumStateBytes { throw OAuthError(.invalidRequest, PageText("error.appTooLong")) }
        guard query["response_type"] == "code" else { return refuse(.unsupportedResponseType, "response_type must be code") }
        guard query["code_challenge_method"] == "S256", let challenge = query["code_challenge"].flatMap(AuthorizationCode.challenge) else {
            return refuse(.invalidRequest, "code_challenge with code_challenge_method S256 is needed")
        }
        var scopes = Scopes.all
        if let text = query["scope"] {
            guard let asked = Scopes(requested: text) else { return refuse(.invalidScope, "scope may hold \(Scopes.all)") }
            scopes = asked
        }
        return .request(AuthorizationRequest(client: client, redirect: redirect, state: state, challenge: challenge, scopes: scopes))
    }

    /// Returns the redirect URI with a response. `iss` tells the client which issuer answers (RFC 9207).
    static func response(_ redirect: RedirectURI, state: String?, issuer: String, _ parameters: [(String, String)]) -> String {
        redirect.with(parameters + (state.map { [("state", $0)] } ?? []) + [("iss", issuer)])
    }
}
