// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The cause of an `AppServiceError`: the session accepts no new connections, but another session does.
package struct SessionEnding: Error, Hashable, Sendable {}

// The codes on the wire, and the codes for the app. An unknown code on the wire becomes `unknown`. An error code without a code on the wire
// is sent as `unknown` in a rejection, and as `failure` in a failure.

private let rejections: [(SessionRejectionCode, AppServiceError.Code)] = [
    (.appNotInstalled, .appNotInstalled), (.appUnavailable, .appUnavailable), (.appServiceUnavailable, .appServiceUnavailable),
    (.remoteSystemUnavailable, .remoteSystemUnavailable), (.remoteSystemNotSupportedByApp, .remoteSystemNotSupportedByApp),
    (.notAuthorized, .notAuthorized), (.authenticationError, .authenticationError), (.networkNotAvailable, .networkNotAvailable),
    (.disabledByPolicy, .disabledByPolicy), (.webServiceUnavailable, .webServiceUnavailable),
    (.resourceLimitsExceeded, .resourceLimitsExceeded), (.timedOut, .timedOut),
]

private let failures: [(SessionFailureCode, AppServiceError.Code)] = [
    (.failure, .failure), (.resourceLimitsExceeded, .resourceLimitsExceeded), (.unknown, .unknown),
    (.remoteSystemUnavailable, .remoteSystemUnavailable), (.messageTooLarge, .messageTooLarge),
    (.appServiceConnectionClosed, .appServiceConnectionClosed), (.authenticationError, .authenticationError),
    (.networkNotAvailable, .networkNotAvailable), (.disabledByPolicy, .disabledByPolicy), (.webServiceUnavailable, .webServiceUnavailable),
    (.timedOut, .timedOut), (.invalidMessage, .invalidMessage), (.appUnavailable, .appUnavailable),
]

extension AppServiceError {
    /// Creates an error with the peer's message, without characters that must not be displayed.
    private init(_ code: Code, peer message: String) {
        self.init(code, message: message.isEmpty ? nil : DisplayText.sanitized(message))
    }

    init(_ rejection: SessionRejection) {
        if rejection.code == .sessionEnding {
            self = .sessionEnding
        } else {
            self.init(rejections.first { $0.0 == rejection.code }?.1 ?? .unknown, peer: rejection.message)
        }
    }

    init(_ failure: SessionFailure) {
        self.init(failures.first { $0.0 == failure.code }?.1 ?? .unknown, peer: failure.message)
    }

    init(_ end: SessionEnd, cause: (any Error)? = nil) {
        self.init(.remoteSystemUnavailable, message: "the connection to the device ended (\(end.summary)); try again", cause: cause)
    }

    init(_ excess: LimitExceeded) {
        switch excess.limit {
        case .messageBytes: self.init(.messageTooLarge, message: "\(excess); send it in parts", cause: excess)
        default: self.init(.resourceLimitsExceeded, message: "\(excess); wait for others to end", cause: excess)
        }
    }

    init(_ error: SessionSendError) {
        switch error {
        case .limitExceeded(let excess): self.init(excess)
        case .metadataTooLong: self.init(.appServiceUnavailable, message: "the service's name and the app ids are too long; check them")
        case .sessionEnding: self = .sessionEnding
        case .notOpen: self.init(.appServiceConnectionClosed)
        }
    }

    init(open failure: SessionOpenFailure) {
        switch failure {
        case .refused(let rejection): self.init(rejection)
        case .cancelled: self.init(.cancelled)
        // The peer has not received the request, so another session can take it.
        case .sessionEnded(.idle), .sessionEnded(.drained): self = .sessionEnding
        // The session belonged to a lost network. Another session may reach the peer.
        case .sessionEnded(.failed(.timedOut)):
            self.init(SessionEnd.failed(.timedOut), cause: SessionEnding())
        // The peer has started anew.
        case .sessionEnded(.failedByPeer(let goaway)) where goaway.code == SessionError.invalidMove.rawValue: self = .sessionEnding
        case .sessionEnded(let end): self.init(end)
        }
    }

    init(request failure: SessionRequestFailure) {
        switch failure {
        case .failed(let failure): self.init(failure)
        case .cancelled: self.init(.cancelled)
        case .responseTooLarge(let excess):
            self.init(.messageTooLarge, message: "the answer is too large: \(excess); ask for less at once", cause: excess)
        case .connectionClosed(let closure): self = AppServiceClosure(closure).error
        case .sessionEnded(let end): self.init(end)
        }
    }

    private static var sessionEnding: Self {
        Self(.remoteSystemUnavailable, message: "the session is ending; try again", cause: SessionEnding())
    }

    /// The rejection that the peer receives in place of `opened`.
    var rejection: SessionRejection {
        SessionRejection(rejections.first { $0.1 == code }?.0 ?? .unknown, message)
    }

    /// The failure that the peer receives in place of a response.
    var failure: SessionFailure {
        SessionFailure(failures.first { $0.1 == code }?.0 ?? .failure, message)
    }
}

extension AppServiceClosure {
    init(_ closure: SessionClosure) {
        let status: AppServiceClosedStatus =
            switch closure.code {
            case .completed: .completed
            case .cancelled: .cancelled
            case .resourceLimitsExceeded: .resourceLimitsExceeded
            default: .unknown
            }
        self.init(status, DisplayText.sanitized(closure.message))
    }

    init(_ end: SessionConnectionEnd) {
        switch end {
        case .closed(let closure): self.init(closure)
        case .sessionEnded(let end): self.init(.remoteSystemUnavailable, end.summary)
        }
    }
}

extension SessionEnd {
    /// A short text for messages.
    package var summary: String {
        switch self {
        case .drained, .idle: "it was no longer needed"
        case .connectionLost: "the connection broke off"
        case .failed(.timedOut): "the device does not answer"
        case .failed(let error): "the device violated the protocol: \(error)"
        case .failedByPeer(let goaway):
            "the other device ended the session" + (SessionError(rawValue: goaway.code).map { ": \($0)" } ?? "")
        }
    }
}
