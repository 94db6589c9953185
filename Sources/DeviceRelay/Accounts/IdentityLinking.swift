// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation
import RelayProtocol

/// A provider that can sign a user in beside the stored login.
package protocol FreshSigningIn: AccessTokenProvider {
    /// Signs the user in, and returns the token of this login. Nothing is stored.
    func freshToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken
}

extension ConnectedDevicesAccountManager {
    /// Gives an account one more identity, so that its user can sign new devices in at another issuer, too. It is no device's login: this
    /// device stays signed in as before.
    /// - Parameters:
    ///   - account: The account. Another of its devices has approved this one, or it was the first.
    ///   - provider: Signs the user in. A provider of the app returns a token of a login of the last five minutes, of an issuer that the
    ///     relay trusts. One that works by browser or code asks the user even if a login is stored.
    /// - Throws: `AccountError`: `identityOfOtherAccount`, `notEstablished`, `accessTokenRequestFailed` if the user does not sign in or the relay
    ///   does not accept the token, `networkNotAvailable`, `serviceFailed`, `notFound`.
    public func link(_ account: ConnectedDevicesAccount, signingInBy provider: any AccessTokenProvider) async throws(AccountError) {
        guard let endpoint = platform.endpoint(of: account.id) else { throw AccountError(notFound: account) }
        try await endpoint.linkIdentity(signingInBy: provider)
    }
}

/// A change of how people can sign in to an account, as the relay states it.
public struct IdentityChange: Hashable, Sendable {
    /// What has changed.
    public enum Kind: Hashable, Sendable {
        /// A person who signs in at the issuer with a certain identity is let into the account from now on.
        case linked
        /// The identity lets in no person any more.
        case removed
    }

    /// Whether it was linked or removed.
    public let kind: Kind
    /// The issuer's URL, without control characters.
    public let issuer: String
    /// The endpoint that linked the identity; `nil` if the relay's operator did.
    public let endpoint: EndpointID?
    /// By the relay's clock.
    public let time: Date

    /// `nil` for a change that this version does not know.
    init?(_ message: RelayMessage.IdentityChanged) {
        switch message.change {
        case .linked: kind = .linked
        case .removed: kind = .removed
        default: return nil
        }
        issuer = DisplayText.sanitized(message.issuer)
        endpoint = message.endpoint
        time = Date(timeIntervalSince1970: Double(message.time.count) / 1_000)
    }
}

extension ConnectedDevicesAccountManager {
    /// The changes of how people can sign in to an account, while this device is connected. A device that was not does not learn of them; the
    /// account's page at the relay lists them all. Changes between two reads are skipped. The device that links an identity gets none for it.
    public func identityChanges(of account: ConnectedDevicesAccount) -> AsyncValues<IdentityChange> {
        AsyncValues(platform.endpoint(of: account.id)?.identityChange) { $0 }
    }
}

extension AccountError {
    /// The relay's rejection of an identity.
    init(ofLinking failure: RelayMessage.Failure) {
        let code: Code =
            switch failure.code {
            case .wrongAccount: .identityOfOtherAccount
            case .notEstablished: .notEstablished
            case .unavailable, .internalError, .issuerUnavailable, .unknownType, .limitExceeded: .serviceFailed
            default: .accessTokenRequestFailed
            }
        let message =
            switch code {
            case .identityOfOtherAccount: "this identity belongs to another account of the relay"
            case .notEstablished: "approve this device on another one first"
            default: "the relay does not link this identity: \(DisplayText.sanitized(failure.message))"
            }
        self.init(code, message: message)
    }
}
