// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// The logins that the platform stores: it returns their tokens, refreshes them, and ends them. All providers that sign a user in
/// share it, so each of them continues a login that another one began.
///
/// Several processes and tasks may call it at the same time: one of them refreshes or signs in, and all get the same token. A
/// refresh whose response was lost can be repeated.
final class StoredLogins: Sendable {
    private let http: HTTPRequestClient
    /// The digests of the latest returned tokens.
    private let given = Mutex<[EndpointCredentials: Digest256]>([:])

    init(http: HTTPRequestClient) { self.http = http }

    /// The stored token if it is valid for a minute more, else a refreshed one, else that of a new login.
    /// - Parameter signIn: Signs the user in, if there is no login or it has ended. It gets the ended login.
    func accessToken(
        for request: AccessTokenRequest,
        signIn: @escaping @Sendable (IssuerClient, _ ended: StoredTokens?) async throws -> StoredTokens
    ) async throws(AccessTokenError) -> AccessToken {
        let endpoint = try request.credentials()
        let tokens = try await current(endpoint, signIn)
        given.withLock { $0[endpoint] = Self.digest(tokens) }
        return AccessToken(tokens.accessToken.exposed)
    }

    /// Marks the stored access token as expired. The login remains.
    func invalidate(_ request: AccessTokenRequest) async {
        guard let endpoint = request.endpoint else { return }
        let refused = given.withLock { $0[endpoint] }
        // If this fails to store, the relay rejects the token again and this method is called again.
        try? await endpoint.tokens.withExclusiveAccess { tokens in
            // Another process may have stored a newer token in the meantime.
            guard let stored = tokens, refused == nil || refused == Self.digest(stored) else { return }
            tokens?.accessTokenExpires = 0
        }
    }

    private func current(
        _ endpoint: EndpointCredentials,
        _ signIn: @escaping @Sendable (IssuerClient, StoredTokens?) async throws -> StoredTokens
    ) async throws(AccessTokenError) -> StoredTokens {
        do {
            if let stored = try endpoint.tokens.read(), Self.isValid(stored, endpoint) { return stored }
            // The lock is held during a sign-in: only one process asks the user, and a storage failure does not waste a login.
            return try await endpoint.tokens.withExclusiveAccess { tokens in
                if let stored = tokens, Self.isValid(stored, endpoint) { return stored }
                let issuer = IssuerClient(endpoint, http: self.http)
                let successor = try await Self.successor(of: tokens, issuer, signIn)
                tokens = successor
                return successor
            }
        } catch {
            throw Self.accessTokenError(error)
        }
    }

    /// The token of a new login, which is not stored. The stored login remains.
    func freshToken(
        for request: AccessTokenRequest,
        signIn: @Sendable (IssuerClient) async throws -> StoredTokens
    ) async throws(AccessTokenError) -> AccessToken {
        let endpoint = try request.credentials()
        do {
            return AccessToken(try await signIn(IssuerClient(endpoint, http: http)).accessToken.exposed)
        } catch {
            throw Self.accessTokenError(error)
        }
    }

    private static func accessTokenError(_ error: any Error) -> AccessTokenError {
        switch error {
        case let error as AccessTokenError: error
        case let error as IssuerClientError: AccessTokenError(error)
        case is CancellationError: AccessTokenError(.cancelled, message: "the task was cancelled")
        default: AccessTokenError(.unknown, message: "the tokens cannot be stored or read: \(error)", cause: error)
        }
    }

    private static func successor(
        of tokens: StoredTokens?,
        _ issuer: IssuerClient,
        _ signIn: @Sendable (IssuerClient, StoredTokens?) async throws -> StoredTokens
    ) async throws -> StoredTokens {
        guard let tokens, let refreshToken = tokens.refreshToken else { return try await signIn(issuer, tokens) }
        do throws(IssuerClientError) {
            // Tokens are stored after the response. If the response is lost, the issuer accepts the same refresh token again.
            return try await issuer.refresh(tokens, refreshToken)
        } catch {
            guard error == .refused(.invalidGrant) else { throw error }
            return try await signIn(issuer, tokens)
        }
    }

    private static func isValid(_ tokens: StoredTokens, _ endpoint: EndpointCredentials) -> Bool {
        tokens.accessTokenExpires.subtractingReportingOverflow(endpoint.now()).partialValue >= 60_000
    }

    private static func digest(_ tokens: StoredTokens) -> Digest256 { Digest256(hashing: Array(tokens.accessToken.exposed.utf8)) }
}
