// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation

/// The source of access tokens. An app implements this protocol, or uses an existing provider, to sign its user in.
public protocol AccessTokenProvider: Sendable {
    /// Returns a token of which at least a third of its life, or a minute, remains. It may take as long as a user needs to sign in. The platform
    /// stays disconnected during the call, and makes no second call for the same account.
    /// - Throws: `AccessTokenError`. After `networkNotAvailable` and `serviceFailed` the platform retries.
    func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken

    /// Called when the relay has rejected or invalidated the last token. Do not return that token again.
    func accessTokenInvalidated(_ request: AccessTokenRequest) async
}

/// The parameters of a token request: the account, the relay and the scopes.
public struct AccessTokenRequest: Hashable, Sendable {
    /// The app's id of the account.
    public let accountID: String
    /// The relay that the token is for. It lists the issuers that it trusts.
    public let relay: URL
    /// The scopes that the token needs.
    public let scopes: Set<AccessTokenScope>
    /// The endpoint that the token is for. The platform sets it.
    package var endpoint: EndpointCredentials?
    /// How the user knows this device. The platform sets it.
    package var device: DeviceDescription?

    /// Creates a request for a token.
    public init(accountID: String, relay: URL, scopes: Set<AccessTokenScope> = AccessTokenScope.all) {
        self.accountID = accountID
        self.relay = relay
        self.scopes = scopes
    }
}

/// An OAuth 2.0 scope of an access token.
public struct AccessTokenScope: RawRepresentable, Hashable, Sendable {
    /// The name on the wire.
    public let rawValue: String

    /// Creates a scope from its name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Permits reading the account's devices.
    public static let deviceRead = Self(rawValue: "relay.device.read")
    /// Permits being a device of the account.
    public static let deviceRegister = Self(rawValue: "relay.device.register")
    /// Permits sending commands and opening sessions.
    public static let command = Self(rawValue: "relay.command")
    /// Permits wakes by push notifications.
    public static let push = Self(rawValue: "relay.push")
    /// Requests a refresh token from the issuer, so that the user stays signed in.
    public static let offlineAccess = Self(rawValue: "offline_access")

    /// All scopes. The platform requests these.
    public static let all: Set<AccessTokenScope> = [.deviceRead, .deviceRegister, .command, .push, .offlineAccess]
}
