// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation
import RelayProtocol

/// Signs a user in with a browser on this device (RFC 8252): the app opens the issuer's page, and the issuer sends the browser to an
/// address on this machine, where the provider waits. It uses the authorization code grant with PKCE (RFC 7636).
///
/// It asks the user if the account has no login, or the login has ended. Later it returns the stored tokens, and refreshed ones.
/// Tokens are bound to the endpoint's key if the issuer supports it (RFC 9449).
public final class BrowserAccessTokenProvider: FreshSigningIn {
    private enum Client {
        case known(String)
        case registering(name: String)
    }

    /// How long the user gets, in milliseconds.
    private static let patience: Int64 = 600_000

    private let client: Client
    private let choice: IssuerChoice
    /// The port that the browser comes back to; 0 for any that is free.
    private let port: Int
    private let open: @Sendable (URL) async throws -> Void
    private let patience: Int64
    private let logins: StoredLogins

    /// - Parameters:
    ///   - clientID: The app's client id at the issuer, with `http://127.0.0.1/signed-in` (at any port) as redirect URI.
    ///   - issuer: The issuer's URL, which the relay must trust; `nil` for the relay's own issuer, or else the first that it names.
    ///   - apiScopes: Scopes that take the place of the relay's at another issuer, such as `api://ID/access` of Microsoft Entra. With them the
    ///     requests name no `resource` (RFC 8707). Only the user or the app may name them, never the relay.
    ///   - redirectPort: The port of the redirect URI, for a provider that compares the whole URI; 0 for any that is free.
    ///   - open: Opens a URL in the browser of the user, and returns at once. The URL is on this machine and leads to the issuer's page. It
    ///     works once: the sign-in ends if it is opened twice.
    public convenience init(
        clientID: String,
        issuer: URL? = nil,
        apiScopes: [String] = [],
        redirectPort: UInt16 = 0,
        open: @escaping @Sendable (URL) async throws -> Void
    ) {
        self.init(.known(clientID), issuer, apiScopes, Int(redirectPort), Self.patience, open)
    }

    /// A provider that registers the app at the issuer at each sign-in (RFC 7591), as the relay's own issuer allows.
    /// - Parameters:
    ///   - name: The app's name, for the user. The device's name follows it.
    ///   - issuer: The issuer's URL, which the relay must trust; `nil` for the relay's own issuer, or else the first that it names.
    ///   - open: As above.
    public convenience init(registeringAs name: String, issuer: URL? = nil, open: @escaping @Sendable (URL) async throws -> Void) {
        self.init(.registering(name: name), issuer, [], 0, Self.patience, open)
    }

    /// - Parameter patience: How long the user gets, in milliseconds.
    package convenience init(
        clientID: String,
        issuer: URL? = nil,
        patience: Int64,
        open: @escaping @Sendable (URL) async throws -> Void
    ) {
        self.init(.known(clientID), issuer, [], 0, patience, open)
    }

    private init(
        _ client: Client,
        _ issuer: URL?,
        _ apiScopes: [String],
        _ port: Int,
        _ patience: Int64,
        _ open: @escaping @Sendable (URL) async throws -> Void
    ) {
        self.client = client
        self.choice = issuer.map { .named($0.absoluteString) } ?? .any
        self.port = port
        self.open = open
        self.patience = patience
        logins = StoredLogins(http: HTTPRequestClient(), userScopes: apiScopes)
    }

    /// The stored token if more than a third of its life remains, else a refreshed one, else that of a new login.
    /// - Throws: `declined` if the user does not allow it, `signInRequired` if the user does not answer within ten minutes.
    public func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        try await logins.accessToken(for: request) { [self] issuer, _, store in try await signIn(request, issuer, into: store) }
    }

    /// Marks the stored access token as expired. The login remains.
    public func accessTokenInvalidated(_ request: AccessTokenRequest) async { await logins.invalidate(request) }

    package func freshToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        try await logins.freshToken(for: request) { [self] issuer in try await signIn(request, issuer, into: NoReceiver()) }
    }

    private func signIn(
        _ request: AccessTokenRequest,
        _ client: IssuerClient,
        into store: some TokenReceiver
    ) async throws -> StoredTokens {
        let issuer = try await client.discover(choice)
        guard let page = issuer.authorizationEndpoint, page.fragment == nil else { throw IssuerClientError.notOffered }
        let keys = AuthorizationKeys()
        let check = AuthorizationResponseCheck(
            path: LoopbackRedirect.path,
            state: keys.state,
            issuer: issuer.url.text,
            needsIssuer: issuer.namesItselfInResponses
        )
        let redirect = try await LoopbackRedirect.listen(for: check, port: port, timeout: patience)
        defer { redirect.stop() }
        let clientID =
            switch self.client {
            case .known(let id): id
            case .registering(let name): try await client.register(name, request.device, redirect: redirect.uri, at: issuer)
            }
        let scope = client.scopeParameter(for: request.scopes, at: issuer)
        var parameters = [("client_id", clientID), ("redirect_uri", redirect.uri), ("scope", scope)]
        parameters += client.resource(at: issuer).map { ($0.0, $0.1.exposed) }
        // Some providers of OpenID Connect demand it, although only ID tokens contain it, and these are not used.
        if scope.split(separator: " ").contains("openid") { parameters.append(("nonce", AuthorizationKeys().state.exposed)) }
        guard let url = keys.url(of: page, parameters), let begin = redirect.begin(at: url) else { throw IssuerClientError.notOffered }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            // An app may open the page and wait for the user.
            group.addTask { [open] in
                do { try await open(begin) } catch { redirect.end(error is CancellationError ? .cancelled : .notOpened) }
            }
            do {
                let tokens: StoredTokens
                switch try await redirect.response() {
                case .refused("access_denied"): throw IssuerClientError.denied
                case .refused(let error): throw IssuerClientError.refused(.init(rawValue: error) ?? .other)
                case .openedTwice: throw IssuerClientError.openedTwice
                case .notOpened: throw IssuerClientError.pageNotOpened
                case .cancelled: throw IssuerClientError.cancelled
                case .code(let code):
                    tokens = try await client.redeem(
                        code,
                        keys.verifier,
                        redirect: redirect.uri,
                        at: issuer,
                        clientID: clientID,
                        into: store
                    )
                }
                await redirect.tell(.signedIn)
                return tokens
            } catch {
                await redirect.tell(.failed((error as? IssuerClientError)?.advice ?? "the sign-in could not be stored on this device"))
                throw error
            }
        }
    }
}

/// The secrets of one authorization request.
private struct AuthorizationKeys {
    let state: Secret<String>
    let verifier: Secret<String>

    init() {
        var random = SystemRandomNumberGenerator()
        state = Secret(Base64.url.encode(randomBytes(32, using: &random)))
        verifier = Secret(Base64.url.encode(randomBytes(32, using: &random)))
    }

    /// The page with the parameters of the request.
    func url(of page: URL, _ parameters: [(String, String)]) -> URL? {
        let challenge = Base64.url.encode(Digest256(hashing: Array(verifier.exposed.utf8)).bytes)
        let all =
            [("response_type", "code")] + parameters
            + [("state", state.exposed), ("code_challenge", challenge), ("code_challenge_method", "S256")]
        let query = all.map { "\($0.0)=\(FormCoding.encode($0.1))" }.joined(separator: "&")
        return URL(exactly: page.absoluteString + (page.query == nil ? "?" : "&") + query)
    }
}

extension IssuerClient {
    /// Registers an app for one redirect URI (RFC 7591).
    /// - Returns: Its client id.
    fileprivate func register(
        _ name: String,
        _ device: DeviceDescription?,
        redirect: String,
        at issuer: Issuer
    ) async throws(IssuerClientError) -> String {
        struct Registration: Encodable {
            var redirects: [String]
            var name: String
            var kind = "native"
            var authMethod = "none"
            var grants = ["authorization_code", "refresh_token"]
            var responses = ["code"]

            enum CodingKeys: String, CodingKey {
                case redirects = "redirect_uris"
                case name = "client_name"
                case kind = "application_type"
                case authMethod = "token_endpoint_auth_method"
                case grants = "grant_types"
                case responses = "response_types"
            }
        }
        struct Answer: Decodable {
            var id: String

            enum CodingKeys: String, CodingKey { case id = "client_id" }
        }
        guard let url = issuer.registrationEndpoint else { throw .notOffered }
        let full = DisplayText.sanitized(device.map { "\(name) on \($0.name)" } ?? name)
        let shown = String(String.UnicodeScalarView(full.unicodeScalars.prefix(64)))
        let document = Registration(redirects: [redirect], name: shown)
        let answer: Answer = try content(try await create(at: url, of: issuer, document), of: issuer.foreignName)
        guard (1...512).contains(answer.id.utf8.count), answer.id.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
            throw .malformed("client_id has no valid value", issuer: issuer.foreignName)
        }
        return answer.id
    }

    /// Redeems an authorization code.
    fileprivate func redeem(
        _ code: Secret<String>,
        _ verifier: Secret<String>,
        redirect: String,
        at issuer: Issuer,
        clientID: String,
        into store: some TokenReceiver
    ) async throws -> StoredTokens {
        try await tokens(
            from: issuer,
            form: [
                ("grant_type", Secret("authorization_code")), ("code", code), ("redirect_uri", Secret(redirect)),
                ("code_verifier", verifier),
            ],
            clientID: clientID,
            into: store
        )
    }
}
