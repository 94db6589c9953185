// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A provider that continues the login of a join link.
protocol LinkAccepting: AccessTokenProvider {
    /// The app's client id, which the login belongs to.
    var clientID: String { get }
}

/// Provides tokens of the relay's own issuer for accounts that joined by a link: the stored tokens, and refreshed ones. It continues
/// a login that another provider of the SDK began, too, and never asks a user.
public final class JoinLinkAccessTokenProvider: LinkAccepting {
    /// The app's client id at the issuer, such as `com.example.player`.
    public let clientID: String

    private let logins: StoredLogins

    /// - Parameter clientID: The app's name in reverse DNS form: at least two labels of letters, digits, `-` and `_`,
    ///   separated by dots, at most 255 bytes. A login belongs to the client id that created it.
    public convenience init(clientID: String) { self.init(clientID: clientID, http: HTTPRequestClient()) }

    package init(clientID: String, http: HTTPRequestClient) {
        self.clientID = clientID
        logins = StoredLogins(http: http)
    }

    /// The stored token if more than a third of its life remains, else a refreshed one.
    /// - Throws: `signInRequired` if the account has no login, or its login expired or was revoked.
    public func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        try await logins.accessToken(for: request) { _, ended, _ in
            guard ended != nil else {
                throw AccessTokenError(.signInRequired, message: "this account was not joined yet; ask for a join link and join")
            }
            throw IssuerClientError.refused(.invalidGrant)
        }
    }

    /// Marks the stored access token as expired. The login remains.
    public func accessTokenInvalidated(_ request: AccessTokenRequest) async { await logins.invalidate(request) }
}
