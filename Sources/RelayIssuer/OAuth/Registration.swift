// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
package import RelayProtocol

/// A registration request of a client (RFC 7591 §3.1).
package struct RegistrationRequest: Sendable {
    package let name: String
    package let redirects: [RedirectURI]

    package init(json: JSONValue) throws(OAuthError) {
        func read<Value: JSONReadable>(_ key: String) throws(OAuthError) -> Value? {
            do throws(JSONError) { return try json.optional(key) } catch {
                throw OAuthError(.invalidClientMetadata, "\(key) has the wrong type")
            }
        }
        let texts: [String] = try read("redirect_uris") ?? []
        redirects = texts.compactMap(RedirectURI.init)
        guard (1...RegisteredClient.maximumRedirects).contains(texts.count), redirects.count == texts.count else {
            throw OAuthError(
                .invalidRedirectURI,
                "redirect_uris needs 1 to \(RegisteredClient.maximumRedirects) URIs of a native app: http at 127.0.0.1, [::1] or localhost, or a scheme in reverse DNS form such as com.example.app:/done"
            )
        }
        if let method: String = try read("token_endpoint_auth_method"), method != "none" {
            throw OAuthError(.invalidClientMetadata, "token_endpoint_auth_method must be none: only public clients register themselves")
        }
        let grants: [String] = try read("grant_types") ?? []
        let responses: [String] = try read("response_types") ?? []
        guard grants.allSatisfy(["authorization_code", "refresh_token", TokenRequest.deviceCode].contains),
            responses.allSatisfy({ $0 == "code" })
        else {
            throw OAuthError(
                .invalidClientMetadata,
                "grant_types may hold authorization_code and refresh_token; response_types may hold code"
            )
        }
        name = try read("client_name") ?? ""
        guard RegisteredClient.isName(name) else {
            throw OAuthError(
                .invalidClientMetadata,
                "client_name has at most \(RegisteredClient.maximumNameCharacters) characters, and no control characters"
            )
        }
    }
}

/// The response to a registration (RFC 7591 §3.2.1).
struct RegistrationResponse: Encodable, Sendable {
    var clientID: String
    var issuedAt: Int64
    var name: String
    var redirects: [String]
    var authMethod = "none"
    var grantTypes = ["authorization_code", "refresh_token"]
    var responseTypes = ["code"]

    /// Registers the client of a request.
    init(to body: [UInt8], by key: SymmetricKey, now: Milliseconds) throws(OAuthError) {
        guard let json = try? JSONValue(parsing: body) else { throw OAuthError(.invalidClientMetadata, "the request is not JSON") }
        let request = try RegistrationRequest(json: json)
        let client = RegisteredClient(name: request.name, redirects: request.redirects, by: key)
        clientID = client.id
        issuedAt = now.count / 1_000
        name = client.name
        redirects = request.redirects.map(\.text)
    }

    private enum CodingKeys: String, CodingKey {
        case clientID = "client_id"
        case issuedAt = "client_id_issued_at"
        case name = "client_name"
        case redirects = "redirect_uris"
        case authMethod = "token_endpoint_auth_method"
        case grantTypes = "grant_types"
        case responseTypes = "response_types"
    }
}
