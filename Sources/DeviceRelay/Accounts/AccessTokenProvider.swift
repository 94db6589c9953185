// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// What an app implements, or picks, to sign its person in: where the platform gets access tokens from.
public protocol AccessTokenProvider: Sendable {
    /// A token that is valid for a minute at least. It may take as long as a person needs to sign in; meanwhile the platform is not
    /// connected, and it does not ask for the same account again.
    /// - Throws: `AccessTokenError`; after `networkNotAvailable` and `serviceFailed` the platform asks again by itself.
    func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken

    /// The relay did not take the last token, or has withdrawn it: it must not be given out again.
    func accessTokenInvalidated(_ request: AccessTokenRequest) async
}

/// For whom, where and what for a token is asked.
public struct AccessTokenRequest: Hashable, Sendable {
    /// The app's id of the account.
    public let accountID: String
    /// The relay that the token is for. It names the issuers it trusts.
    public let relay: URL
    /// What the token must allow.
    public let scopes: Set<AccessTokenScope>
    /// The endpoint that the token is for. The platform fills it in.
    package var endpoint: EndpointCredentials?

    /// A request for a token.
    public init(accountID: String, relay: URL, scopes: Set<AccessTokenScope> = AccessTokenScope.all) {
        self.accountID = accountID
        self.relay = relay
        self.scopes = scopes
    }
}

/// What an access token allows, as OAuth 2.0 names it.
public struct AccessTokenScope: RawRepresentable, Hashable, Sendable {
    /// The name on the wire.
    public let rawValue: String

    /// A scope by its name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// To see the account's devices.
    public static let deviceRead = Self(rawValue: "relay.device.read")
    /// To be one of the account's devices.
    public static let deviceRegister = Self(rawValue: "relay.device.register")
    /// To send commands, and to open sessions.
    public static let command = Self(rawValue: "relay.command")
    /// To be woken by push notifications.
    public static let push = Self(rawValue: "relay.push")
    /// To stay signed in: the issuer gives a refresh token.
    public static let offlineAccess = Self(rawValue: "offline_access")

    /// All of them, which is what the platform asks for.
    public static let all: Set<AccessTokenScope> = [.deviceRead, .deviceRegister, .command, .push, .offlineAccess]
}
