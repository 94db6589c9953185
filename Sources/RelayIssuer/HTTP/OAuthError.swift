// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
package import RelayProtocol

/// An error response of the issuer (RFC 6749 §5.2). Its description contains advice and nothing from the request.
package struct OAuthError: Error, Hashable, Sendable {
    package enum Code: String, Sendable {
        case invalidRequest = "invalid_request"
        case invalidClient = "invalid_client"
        case invalidGrant = "invalid_grant"
        case unauthorizedClient = "unauthorized_client"
        case unsupportedGrantType = "unsupported_grant_type"
        case invalidScope = "invalid_scope"
        /// RFC 6749 §4.1.2.1.
        case unsupportedResponseType = "unsupported_response_type"
        /// RFC 8628 §3.5.
        case authorizationPending = "authorization_pending"
        case slowDown = "slow_down"
        case expiredToken = "expired_token"
        /// RFC 7591 §3.2.2.
        case invalidRedirectURI = "invalid_redirect_uri"
        case invalidClientMetadata = "invalid_client_metadata"
        /// RFC 9449 §5.
        case invalidDPoPProof = "invalid_dpop_proof"
        /// RFC 7009 §2.2.1.
        case unsupportedTokenType = "unsupported_token_type"
        /// RFC 6750 §3.1.
        case invalidToken = "invalid_token"
        case insufficientScope = "insufficient_scope"
        /// RFC 6749 §4.1.2.1: the token's holder lacks the permission.
        case accessDenied = "access_denied"
        /// RFC 6749 §4.1.2.1.
        case temporarilyUnavailable = "temporarily_unavailable"
        case serverError = "server_error"
    }

    /// Details beyond the code, for programs. No standard defines them.
    package enum Reason: String, Sendable {
        /// The login has ended because its endpoint was revoked.
        case endpointRevoked
        /// The login has ended because two devices used its join link.
        case linkReused
    }

    package var code: Code
    package var description: String
    /// What a page shows instead of the description, in the person's language.
    var text: PageText?
    package var reason: Reason?
    package var status: Int
    package var retryAfter: Milliseconds?

    package init(_ code: Code, _ description: String, reason: Reason? = nil, status: Int = 400, retryAfter: Milliseconds? = nil) {
        self.code = code
        self.description = description
        self.reason = reason
        self.status = status
        self.retryAfter = retryAfter
    }
}

extension OAuthError {
    /// An error that people see on a page. Programs get the same in English.
    init(_ code: Code, _ text: PageText, status: Int = 400, retryAfter: Milliseconds? = nil) {
        self.init(code, text.english, status: status, retryAfter: retryAfter)
        self.text = text
    }

    static let fault: OAuthError = {
        var fault = OAuthError(.serverError, "the issuer failed; its log says why", status: 500)
        fault.text = PageText("error.fault")
        return fault
    }()

    /// Asks the client to come again later.
    /// - Parameter status: 429 after too many requests, 503 while the issuer is busy.
    static func later(_ description: String, status: Int = 429, after wait: Milliseconds) -> OAuthError {
        OAuthError(.temporarilyUnavailable, description, status: status, retryAfter: wait)
    }

    static func later(_ text: PageText, status: Int = 429, after wait: Milliseconds) -> OAuthError {
        OAuthError(.temporarilyUnavailable, text, status: status, retryAfter: wait)
    }

    static func tooManyAttempts(_ wait: Milliseconds) -> OAuthError {
        later(PageText("error.tooManyAttempts", ["seconds": wait.retryAfterSeconds]), after: wait)
    }
}
