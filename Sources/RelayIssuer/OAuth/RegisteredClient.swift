// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A native public client that registered itself (RFC 7591). Its name is not verified.
package struct RegisteredClient: Hashable, Sendable {
    /// The first label of the ids that the issuer gives.
    static let prefix = "dynamic."
    static let maximumRedirects = 8
    static let maximumNameCharacters = 64
    /// The maximum number of clients. The oldest one that was never used makes room for a new one; if there is none, the least
    /// recently used one.
    static let maximum = 1_000
    /// How long an unused client is kept, in milliseconds.
    static let unusedLife: Int64 = 86_400_000
    /// How long a new or used client is safe from making room.
    static let settling: Int64 = 600_000
    static let life: Int64 = RefreshFamily.wholeLife

    let id: String
    let name: String
    package let redirects: [RedirectURI]
    let created: Milliseconds

    init(id: String, name: String, redirects: [RedirectURI], created: Milliseconds) {
        self.id = id
        self.name = name
        self.redirects = redirects
        self.created = created
    }

    /// Reads a registration request, and gives the client an id.
    package init(registering json: JSONValue, now: Milliseconds) throws(OAuthError) {
        func read<Value: JSONReadable>(_ key: String) throws(OAuthError) -> Value? {
            do throws(JSONError) { return try json.optional(key) } catch {
                throw OAuthError(.invalidClientMetadata, "\(key) has the wrong type")
            }
        }
        let texts: [String] = try read("redirect_uris") ?? []
        let redirects = texts.compactMap(RedirectURI.init)
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
        let name: String = try read("client_name") ?? ""
        guard name.unicodeScalars.count <= RegisteredClient.maximumNameCharacters, DisplayText.isPlain(name) else {
            throw OAuthError(
                .invalidClientMetadata,
                "client_name has at most \(RegisteredClient.maximumNameCharacters) characters, and no control characters"
            )
        }
        self.init(id: RegisteredClient.prefix + Base64.url.encode(randomBytes(16)), name: name, redirects: redirects, created: now)
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

    init(_ client: RegisteredClient) {
        clientID = client.id
        issuedAt = client.created.count / 1_000
        name = client.name
        redirects = client.redirects.map(\.text)
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
