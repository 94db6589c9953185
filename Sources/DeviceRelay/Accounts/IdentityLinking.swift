// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

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
