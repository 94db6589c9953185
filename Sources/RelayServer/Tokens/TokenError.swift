// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Why a token is rejected. It contains nothing from the token.
package enum TokenError: Error, Hashable, Sendable, CaseIterable {
    /// The token does not consist of three JSON parts, or is too large.
    case malformed
    case algorithm
    case type
    case unknownIssuer
    /// The issuer has no such key.
    case unknownKey
    case signature
    /// A required claim is missing or has the wrong type.
    case claims
    case expired
    case notYetValid
    /// It or its login was revoked, or its issuer says that it is not active.
    case revoked
    case audience
    case client
    case boundToOtherKey
    /// The token is bound to something other than a key of this endpoint, such as a client certificate.
    case unknownBinding
    case issuerUnavailable
    /// The issuer refuses the relay's own credentials.
    case relayRefused

    package var code: ControlErrorCode {
        switch self {
        case .malformed, .algorithm, .type, .unknownKey, .signature, .claims: .tokenInvalid
        case .unknownIssuer: .wrongIssuer
        case .expired: .tokenExpired
        case .notYetValid: .tokenNotYetValid
        case .revoked: .tokenRevoked
        case .audience: .wrongAudience
        case .client: .clientNotAllowed
        case .boundToOtherKey, .unknownBinding: .tokenBoundToOtherKey
        case .issuerUnavailable, .relayRefused: .issuerUnavailable
        }
    }

    /// The message for users.
    package var message: String {
        switch self {
        case .malformed: "The token is not a signed JSON Web Token."
        case .algorithm: "The token must be signed with one of \(TokenAlgorithm.allCases.map(\.rawValue).joined(separator: ", "))."
        case .type: "The token is not an access token."
        case .unknownIssuer: "The token is from an issuer this relay does not trust."
        case .unknownKey: "The token is signed with a key that its issuer does not publish."
        case .signature: "The token's signature is not valid."
        case .claims: "A claim of the token is missing or not valid."
        case .expired: "The token has expired; get a new one."
        case .notYetValid: "The token's time has not come; compare the clocks of issuer and relay."
        case .revoked: "The token or its login was revoked; log in again."
        case .audience: "The token is not for this relay."
        case .client: "The token was issued to a client that this relay does not allow."
        case .boundToOtherKey: "The token is bound to another key than this endpoint's."
        case .unknownBinding: "The token is bound to something that this relay cannot check."
        case .issuerUnavailable: "The relay cannot reach the token's issuer to check it."
        case .relayRefused:
            "The token's issuer does not accept the relay's own client id and secret, so the relay cannot check the token. Tell its operator."
        }
    }

    /// The relay's rejection of an endpoint with this token.
    package var rejected: RelayMessage.Rejected {
        RelayMessage.Rejected(
            code: code,
            message: message,
            retry: true,
            retryAfter: code == .issuerUnavailable ? Milliseconds(clamping: KeyCache.pause) : nil
        )
    }
}
