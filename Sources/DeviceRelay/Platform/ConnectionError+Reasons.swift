// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

// MARK: - Descriptions of disconnect reasons
extension ConnectionError {
    /// - Parameter tokenError: The error of the token provider, whose advice takes precedence.
    init(_ reason: DisconnectReason, _ tokenError: AccessTokenError?) {
        switch reason {
        case .dialFailed(let failure): self.init(failure)
        case .noAccessToken(isTransient: true):
            self.init(
                .relayUnreachable,
                tokenError?.message ?? "no access token is available now; the platform tries again",
                tokenError: tokenError
            )
        case .noAccessToken(isTransient: false) where tokenError?.code == .endpointRevoked:
            self.init(
                .endpointRevoked,
                tokenError?.message ?? "this device was revoked; remove the account and join again",
                tokenError: tokenError
            )
        case .noAccessToken(isTransient: false):
            self.init(.authenticationError, tokenError?.message ?? "there is no access token: sign in again", tokenError: tokenError)
        case .rejected(let rejected): self.init(rejected)
        case .tokenInvalidated(.endpointRevoked):
            self.init(.endpointRevoked, "this device was revoked; remove the account and join again")
        case .tokenInvalidated:
            self.init(.authenticationError, "the relay no longer accepts the access token; the platform asks for a new one")
        case .otherRelay(let relay):
            self.init(.relayNotTrusted, "another relay (\(relay.label)…) answers at this address; join again if that is intended")
        case .versionUnsupported(let versions):
            self.init(
                .notCompatible,
                "the relay supports the protocol versions \(versions); update the relay or this app, whichever is older"
            )
        case .timedOut: self.init(.connectionLost, "the relay did not answer in time")
        case .silent: self.init(.connectionLost, "nothing was received from the relay for too long")
        case .closed: self.init(.connectionLost, "the relay closed the connection")
        case .malformed: self.init(.notCompatible, "the relay sent an invalid message; update the relay or this app, whichever is older")
        case .restarting: self.init(.relayRestarting, "the relay is restarting")
        case .networkChanged: self.init(.networkChanged, "the network changed")
        case .endpointInUse: self.init(.endpointInUse, Self.copied)
        case .suspended: self.init(.suspended, "suspended by the app")
        }
    }

    /// Two processes cannot host from one directory, because the first one holds its lock.
    private static let copied =
        "a copy of this device's data is used, on another machine or in another directory, and took over; delete the copy there, "
        + "and let that device join with a link of its own"

    init(_ failure: DialFailure) {
        let code: Code =
            switch failure {
            case .unreachable, .timedOut: .relayUnreachable
            case .untrusted: .relayNotTrusted
            case .status(let status, _): Code(StatusCause(status))
            case .protocolError: .notARelay
            }
        self.init(code, failure.advice, isWithoutRoute: failure == .noRoute)
    }

    static let accountNotConfirmed = ConnectionError(
        .accountNotConfirmed,
        "the account was not confirmed: the sign-in was ended, and this device is not in the account"
    )

    /// The error for an HTTP status that is no answer of a relay.
    package init(status: Int) { self.init(Code(StatusCause(status)), StatusCause.message(status)) }

    private init(_ rejected: RelayMessage.Rejected) {
        switch rejected.code {
        case .tokenInvalid, .tokenExpired, .tokenNotYetValid, .tokenRevoked, .wrongAudience, .wrongIssuer, .clientNotAllowed,
            .tokenBoundToOtherKey:
            self.init(.authenticationError, "the relay does not accept the access token (\(rejected.code)); sign in again if this lasts")
        case .accountUnknown: self.init(.accountUnknown, "the relay has no account for this identity; ask its owner for an invitation")
        case .accountDisabled: self.init(.accountUnknown, "the relay's operator has disabled this account; ask them to enable it")
        case .endpointOfOtherAccount, .wrongAccount:
            self.init(.accountUnknown, "this endpoint belongs to another account; remove the account and join again")
        case .endpointRevoked:
            self.init(.endpointRevoked, "this device was revoked; remove the account and join again")
        case .limitExceeded, .tooManyClients: self.init(.limitExceeded, DisplayText.sanitized(rejected.message))
        case .versionUnsupported:
            self.init(.notCompatible, "the relay supports other protocol versions; update the relay or this app, whichever is older")
        case .wrongOrigin:
            self.init(.refused, "the relay does not serve this address; use one of its URLs, or start it with --url for this one")
        default: self.init(.refused, "the relay rejected this device: \(DisplayText.sanitized(rejected.message)) (\(rejected.code))")
        }
    }
}

extension RemoteSystemWatcherError {
    /// Converts a connection problem into the error for watchers.
    init(_ problem: ConnectionError) {
        let code: Code =
            switch problem.code {
            case .authenticationError, .accountUnknown, .accountNotConfirmed, .endpointRevoked: .authenticationError
            default: .relayUnavailable
            }
        self.init(code, message: problem.message)
    }
}

extension ConnectionError.Code {
    fileprivate init(_ cause: StatusCause) {
        self =
            switch cause {
            case .limited: .limitExceeded
            case .notRunning, .failed, .networkSignIn: .relayUnreachable
            case .notARelay: .notARelay
            }
    }
}
