// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// Provides fixed tokens, each until it is invalidated. For tests and for scripts that get a token from elsewhere.
public final class StaticAccessTokenProvider: AccessTokenProvider {
    private let tokens: Mutex<[AccessToken]>

    /// Creates a provider of one token, or of several that are used one after the other.
    public init(_ tokens: AccessToken...) {
        self.tokens = Mutex(tokens)
    }

    /// See `AccessTokenProvider`.
    /// - Throws: `signInRequired` once all tokens are invalidated.
    public func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        guard let token = tokens.withLock({ $0.first }) else {
            throw AccessTokenError(.signInRequired, message: "the relay accepted none of the given tokens; get a new one")
        }
        return token
    }

    /// See `AccessTokenProvider`.
    public func accessTokenInvalidated(_ request: AccessTokenRequest) async {
        tokens.withLock { if !$0.isEmpty { $0.removeFirst() } }
    }
}
