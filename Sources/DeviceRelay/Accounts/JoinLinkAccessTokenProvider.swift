// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Provides tokens of the relay's own issuer for accounts that joined by a link: the stored tokens, and refreshed ones.
///
/// Several processes and tasks may call it at the same time: one of them refreshes, and all get the same token. A refresh
/// whose response was lost can be repeated.
public final class JoinLinkAccessTokenProvider: AccessTokenProvider {
    /// The app's client id at the issuer, such as `com.example.player`.
    public let clientID: String

    private let http: HTTPRequestClient
    /// The digests of the latest returned tokens.
    private let given = Mutex<[EndpointCredentials: Digest256]>([:])

    /// - Parameter clientID: The app's name in reverse DNS form: at least two labels of letters, digits, `-` and `_`,
    ///   separated by dots, at most 255 bytes. A login belongs to the client id that created it.
    public convenience init(clientID: String) { self.init(clientID: clientID, http: HTTPRequestClient()) }

    package init(clientID: String, http: HTTPRequestClient) {
        self.clientID = clientID
        self.http = http
    }

    /// The stored token if it is valid for a minute more, else a refreshed one.
    /// - Throws: `signInRequired` if the account did not join by a link, or its login expired or was revoked.
    public func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        let endpoint = try request.credentials()
        let tokens = try await current(endpoint)
        given.withLock { $0[endpoint] = Self.digest(tokens) }
        return AccessToken(tokens.accessToken.exposed)
    }

    /// Marks the stored access token as expired. The login remains.
    public func accessTokenInvalidated(_ request: AccessTokenRequest) async {
        guard let endpoint = request.endpoint else { return }
        let refused = given.withLock { $0[endpoint] }
        // If this fails to store, the relay rejects the token again and this method is called again.
        try? await endpoint.tokens.withExclusiveAccess { tokens in
            // Another process may have stored a newer token in the meantime.
            guard let stored = tokens, refused == nil || refused == Self.digest(stored) else { return }
            tokens?.accessTokenExpires = 0
        }
    }

    private func current(_ endpoint: EndpointCredentials) async throws(AccessTokenError) -> StoredTokens {
        do {
            if let stored = try endpoint.tokens.read(), Self.isValid(stored, endpoint) { return stored }
            return try await endpoint.tokens.withExclusiveAccess { tokens in
                guard let stored = tokens else {
                    throw AccessTokenError(.signInRequired, message: "this account was not joined yet; ask for a join link and join")
                }
                if Self.isValid(stored, endpoint) { return stored }
                guard let refreshToken = stored.refreshToken else {
                    throw AccessTokenError(.signInRequired, message: "the login has ended; ask for a new join link and join again")
                }
                // Tokens are stored after the response. If the response is lost, the issuer accepts the same refresh token again.
                let successor = try await IssuerClient(endpoint, http: self.http).refresh(stored, refreshToken)
                tokens = successor
                return successor
            }
        } catch {
            throw switch error {
            case let error as AccessTokenError: error
            case let error as IssuerClientError: AccessTokenError(error)
            case is CancellationError: AccessTokenError(.cancelled, message: "the task was cancelled")
            default: AccessTokenError(.unknown, message: "the tokens cannot be stored or read: \(error)", cause: error)
            }
        }
    }

    private static func isValid(_ tokens: StoredTokens, _ endpoint: EndpointCredentials) -> Bool {
        tokens.accessTokenExpires.subtractingReportingOverflow(endpoint.now()).partialValue >= 60_000
    }

    private static func digest(_ tokens: StoredTokens) -> Digest256 { Digest256(hashing: Array(tokens.accessToken.exposed.utf8)) }
}
