// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

extension AppServiceError {
    /// Creates an error from the relay's rejection of a tunnel: its answer to `tunnel.open`, or `tunnel.failed`.
    /// - Parameter message: The relay's message for users.
    package init(relay code: ControlErrorCode, message: String, retryAfter: Milliseconds? = nil) {
        let shown = DisplayText.sanitized(message)
        self.init(
            Self.code(code),
            message: shown.isEmpty ? nil : "the relay says: \(shown)",
            retryAfter: retryAfter.map { .milliseconds($0.count) }
        )
    }

    private static func code(_ code: ControlErrorCode) -> Code {
        switch code {
        case .notFound, .targetUnknown, .unreachable, .endpointRevoked: .remoteSystemUnavailable
        case .wakeSuppressed: .wakeSuppressed
        case .declined: .appUnavailable
        case .timedOut, .expired: .timedOut
        case .cancelled: .cancelled
        case .tooManyRequests, .limitExceeded, .tooManyClients: .resourceLimitsExceeded
        case .notAuthorized: .disabledByPolicy
        case .unsupported, .unknownType, .versionUnsupported: .notSupported
        case .unavailable, .internalError, .issuerUnavailable: .webServiceUnavailable
        case .tokenInvalid, .tokenExpired, .tokenNotYetValid, .tokenRevoked, .wrongAudience, .wrongIssuer, .clientNotAllowed,
            .tokenBoundToOtherKey, .accountUnknown, .accountDisabled, .wrongAccount, .recordInvalid, .recordOutdated, .signatureInvalid:
            .authenticationError
        default: .unknown
        }
    }
}
