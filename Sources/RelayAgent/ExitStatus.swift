// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import DeviceRelay

/// The exit status of the command line. Scripts rely on it; the documentation has the same table.
package enum ExitStatus: Int32, Sendable, CaseIterable {
    case done = 0
    case failed = 1
    case usage = 2
    case notSignedIn = 3
    case notFound = 4
    case unreachable = 5
    case declined = 6
    case expired = 7
    case pending = 8
    case incomplete = 9
}

// One table for each area. Codes that are not listed mean `failed`.
extension ExitStatus {
    package static let launching: [(code: RemoteLaunchError.Code, status: ExitStatus)] = [
        (.unknown, .failed),
        (.appUnavailable, .notFound),
        (.protocolUnavailable, .notFound),
        (.remoteSystemUnavailable, .notFound),
        (.valueSetTooLarge, .usage),
        (.deniedByRemoteSystem, .declined),
        (.invalidURI, .usage),
        (.ambiguous, .usage),
        (.notConfirmed, .declined),
        (.failed, .failed),
        (.expired, .expired),
        (.cancelled, .failed),
        (.indeterminate, .failed),
        (.pending, .pending),
        (.notAccepted, .failed),
        (.relayUnavailable, .unreachable),
        (.notSignedIn, .notSignedIn),
        (.storageFailed, .failed),
        (.submissionKeyReused, .usage),
    ]

    package static let calling: [(code: AppServiceError.Code, status: ExitStatus)] = [
        (.appNotInstalled, .notFound),
        (.appUnavailable, .unreachable),
        (.appServiceUnavailable, .notFound),
        (.remoteSystemUnavailable, .unreachable),
        (.remoteSystemNotSupportedByApp, .declined),
        (.notAuthorized, .declined),
        (.authenticationError, .notSignedIn),
        (.networkNotAvailable, .unreachable),
        (.disabledByPolicy, .declined),
        (.webServiceUnavailable, .unreachable),
        (.failure, .failed),
        (.resourceLimitsExceeded, .failed),
        (.messageTooLarge, .usage),
        (.appServiceConnectionClosed, .failed),
        (.unknown, .failed),
        (.wakeSuppressed, .unreachable),
        (.timedOut, .pending),
        (.cancelled, .failed),
        (.invalidMessage, .usage),
        (.notSupported, .failed),
        (.submissionKeyReused, .usage),
    ]

    package static let sharing: [(code: NearShareError.Code, status: ExitStatus)] = [
        (.timedOut, .pending),
        (.cancelled, .failed),
        (.deniedByRemoteSystem, .declined),
        (.versionMismatch, .failed),
        (.noSignedInUser, .notSignedIn),
        (.networkError, .unreachable),
        (.platformError, .failed),
        (.remoteSystemUnavailable, .unreachable),
        (.notSupported, .notFound),
        (.ambiguous, .usage),
        (.fileNotFound, .notFound),
        (.fileNotReadable, .failed),
        (.remoteDiskFull, .failed),
        (.remoteNotWritable, .failed),
        (.busy, .failed),
        (.tooLarge, .usage),
        (.disabled, .failed),
        (.failed, .failed),
    ]

    package static let pairing: [(code: DevicePairingError.Code, status: ExitStatus)] = [
        (.wrongCode, .declined),
        (.busy, .failed),
        (.notPairing, .unreachable),
        (.timedOut, .pending),
        (.tooManyFailures, .declined),
        (.ownDevice, .usage),
        (.notReached, .unreachable),
        (.networkNotAvailable, .unreachable),
        (.disabled, .failed),
        (.limitExceeded, .failed),
        (.storageFailed, .failed),
        (.cancelled, .failed),
        (.failed, .failed),
    ]

    package static let accounts: [(code: AccountError.Code, status: ExitStatus)] = [
        (.networkNotAvailable, .unreachable),
        (.serviceFailed, .failed),
        (.noAccessTokenProvider, .failed),
        (.accessTokenRequestFailed, .notSignedIn),
        (.unknown, .failed),
        (.linkInvalid, .notSignedIn),
        (.otherRelay, .unreachable),
        (.storageFailed, .failed),
        (.alreadyAdded, .failed),
        (.notFound, .notFound),
        (.cancelled, .failed),
        (.identityOfOtherAccount, .failed),
        (.notEstablished, .failed),
        (.accountNotConfirmed, .declined),
    ]

    package static let connections: [(code: ConnectionError.Code, status: ExitStatus)] = [
        (.relayUnreachable, .unreachable),
        (.relayNotTrusted, .unreachable),
        (.notARelay, .unreachable),
        (.authenticationError, .notSignedIn),
        (.accountUnknown, .notSignedIn),
        (.accountNotConfirmed, .declined),
        (.endpointRevoked, .notSignedIn),
        (.endpointInUse, .failed),
        (.limitExceeded, .failed),
        (.notCompatible, .unreachable),
        (.relayRestarting, .unreachable),
        (.connectionLost, .unreachable),
        (.networkChanged, .unreachable),
        (.suspended, .failed),
        (.refused, .unreachable),
        (.storageFailed, .failed),
    ]

    package static let publishing: [(code: PublishError.Code, status: ExitStatus)] = [
        (.invalidRegistration, .usage),
        (.limitExceeded, .failed),
        (.endpointInUse, .failed),
        (.relayUnavailable, .unreachable),
        (.notSignedIn, .notSignedIn),
        (.refused, .failed),
        (.storageFailed, .failed),
        (.cancelled, .failed),
    ]

    package static let platform: [(code: PlatformError.Code, status: ExitStatus)] = [
        (.storageFailed, .failed),
        (.storageTooNew, .usage),
        (.endpointInUse, .failed),
        (.invalidSettings, .usage),
        (.shutDown, .failed),
    ]

    static func of<Code: Equatable>(_ code: Code, in table: [(code: Code, status: ExitStatus)]) -> ExitStatus {
        table.first { $0.code == code }?.status ?? .failed
    }
}
