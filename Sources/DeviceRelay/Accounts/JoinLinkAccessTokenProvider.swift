// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Gives tokens of the relay's own issuer to accounts that were joined by a link: those that were stored, and their successors.
///
/// Several processes and tasks may ask at once; one of them refreshes, and all get the same token. A refresh whose answer was lost
/// is repeated by asking again.
public final class JoinLinkAccessTokenProvider: AccessTokenProvider {
    /// What the app is called at the issuer, such as `com.example.player`.
    public let clientID: String

    private let http: HTTPRequestClient
    /// The digests of what was given out last.
    private let given = Mutex<[EndpointCredentials: Digest256]>([:])

    /// - Parameter clientID: The app's name in reverse DNS form: at least two labels of letters, digits, `-` and `_`, with dots
    ///   between, 255 bytes at most. A login belongs to the name that it was made with.
    public convenience init(clientID: String) { self.init(clientID: clientID, http: HTTPRequestClient()) }

    package init(clientID: String, http: HTTPRequestClient) {
        self.clientID = clientID
        self.http = http
    }

    /// The stored token while it is valid for a minute more, else its successor.
    /// - Throws: `signInRequired` if the account was not joined by a link, or its login is over or was withdrawn.
    public func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        let endpoint = try request.credentials()
        let tokens = try await current(endpoint)
        given.withLock { $0[endpoint] = Self.digest(tokens) }
        return AccessToken(tokens.accessToken.exposed)
    }

    /// The stored access token is not given out again. The login stays.
    public func accessTokenInvalidated(_ request: AccessTokenRequest) async {
        guard let endpoint = request.endpoint else { return }
        let refused = given.withLock { $0[endpoint] }
        // Where this cannot be stored, the relay refuses the token again, and this is called again.
        try? await endpoint.tokens.withExclusiveAccess { tokens in
            // Another process may have stored the next one since.
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
                    throw AccessTokenError(.signInRequired, message: "the login is over; ask for a new join link and join again")
                }
                // Nothing is stored before the answer is there: the issuer answers the same token once more.
                let successor = try await IssuerClient(endpoint, http: self.http).refresh(stored, refreshToken)
                tokens = successor
                return successor
            }
        } catch {
            throw switch error {
            case let error as AccessTokenError: error
            case let error as IssuerFailure: AccessTokenError(error)
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
