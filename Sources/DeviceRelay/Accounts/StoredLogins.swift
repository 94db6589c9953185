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

    /// What was discovered of the issuers of the logins, so that a refresh is one request. A failure asks them again.
    private let issuers = Mutex<[EndpointCredentials: IssuerClient.Issuer]>([:])

    /// For a new sign-in.
    private let userScopes: [String]

    /// - Parameter userScopes: The scopes that the user has named for the issuer's API.
    init(http: HTTPRequestClient, userScopes: [String] = []) {
        self.http = http
        self.userScopes = userScopes
    }

    /// The stored token if more than a third of its life remains, else a refreshed one, else that of a new login.
    /// - Parameter signIn: Signs the user in, if there is no login or it has ended. It gets the ended login, and stores the new one.
    func accessToken(
        for request: AccessTokenRequest,
        signIn: @escaping @Sendable (IssuerClient, _ ended: StoredTokens?, LoginReceiver) async throws -> StoredTokens
    ) async throws(AccessTokenError) -> AccessToken {
        let endpoint = try request.credentials()
        let tokens = try await current(endpoint, signIn)
        given.withLock { $0[endpoint] = Self.digest(tokens) }
        return AccessToken(tokens.accessToken.exposed)
    }

    /// Marks the stored access token as expired. The login remains.
    func invalidate(_ request: AccessTokenRequest) async {
        guard let endpoint = request.endpoint else { return }
        issuers.withLock { $0[endpoint] = nil }
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
        _ signIn: @escaping @Sendable (IssuerClient, StoredTokens?, LoginReceiver) async throws -> StoredTokens
    ) async throws(AccessTokenError) -> StoredTokens {
        do {
            if let stored = try endpoint.tokens.read(), Self.isValid(stored, endpoint) { return stored }
            // The lock is held during a sign-in: only one process asks the user, and a storage failure does not waste a login.
            return try await endpoint.tokens.withLock { tokens in
                let stored = try tokens.read()
                if let stored, Self.isValid(stored, endpoint) { return stored }
                return try await self.successor(of: stored, endpoint, LoginReceiver(tokens: tokens), signIn)
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
            return AccessToken(try await signIn(IssuerClient(endpoint, userScopes: userScopes, http: http)).accessToken.exposed)
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

    private func successor(
        of tokens: StoredTokens?,
        _ endpoint: EndpointCredentials,
        _ store: LoginReceiver,
        _ signIn: @Sendable (IssuerClient, StoredTokens?, LoginReceiver) async throws -> StoredTokens
    ) async throws -> StoredTokens {
        let issuer = IssuerClient(endpoint, userScopes: userScopes, http: http)
        guard let tokens, let refreshToken = tokens.refreshToken else { return try await signIn(issuer, tokens, store) }
        do {
            // A login goes on with the parameters that it began with.
            let owner = IssuerClient(endpoint, userScopes: tokens.userScopes, http: http)
            return try await refreshed(tokens, refreshToken, by: owner, store)
        } catch let ended as IssuerClientError where ended.isEndOfLogin {
            do {
                return try await signIn(issuer, tokens, store)
            } catch IssuerClientError.refused(.invalidGrant) {
                // The cause that the issuer gave for the end of the login.
                throw ended
            }
        }
    }

    private func refreshed(
        _ tokens: StoredTokens,
        _ refreshToken: Secret<String>,
        by owner: IssuerClient,
        _ store: LoginReceiver
    ) async throws -> StoredTokens {
        let endpoint = owner.endpoint
        if let known = issuers.withLock({ $0[endpoint] }), known.isOf(tokens.choice) {
            do {
                return try await owner.refresh(tokens, refreshToken, at: known, into: store)
            } catch {
                // The issuer may have moved.
                issuers.withLock { $0[endpoint] = nil }
                guard let issuer = try? await owner.discover(tokens.choice), issuer != known else { throw error }
                return try await owner.refresh(tokens, refreshToken, at: issuer, into: store)
            }
        }
        let issuer = try await owner.discover(tokens.choice)
        let successor = try await owner.refresh(tokens, refreshToken, at: issuer, into: store)
        issuers.withLock { $0[endpoint] = issuer }
        return successor
    }

    /// A token is replaced in the last third of its life, so that short tokens work too. Older files do not say how long it is; for these
    /// it is a minute.
    private static func isValid(_ tokens: StoredTokens, _ endpoint: EndpointCredentials) -> Bool {
        let needed = tokens.accessTokenLife.map { max($0, 0) / 3 + 1 } ?? 60_000
        return tokens.accessTokenExpires.subtractingReportingOverflow(endpoint.now()).partialValue >= needed
    }

    private static func digest(_ tokens: StoredTokens) -> Digest256 { Digest256(hashing: Array(tokens.accessToken.exposed.utf8)) }
}
