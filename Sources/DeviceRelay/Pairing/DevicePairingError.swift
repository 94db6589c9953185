// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Why devices were not paired.
public struct DevicePairingError: DeviceRelayError {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case wrongCode, busy, notPairing, timedOut, tooManyFailures, ownDevice, notReached, networkNotAvailable, disabled, limitExceeded
            case storageFailed, cancelled, failed
        }

        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// The code or link does not fit what the other device shows, or an attacker is between the devices.
        public static let wrongCode = Code(.wrongCode)
        /// The other device is being paired with another one.
        public static let busy = Code(.busy)
        /// The other device does not show a code or link any more.
        public static let notPairing = Code(.notPairing)
        /// It took too long.
        public static let timedOut = Code(.timedOut)
        /// Three attempts with other codes have failed, so this device is not visible any more.
        public static let tooManyFailures = Code(.tooManyFailures)
        /// The code or link is this device's own.
        public static let ownDevice = Code(.ownDevice)
        /// The other device cannot be reached.
        public static let notReached = Code(.notReached)
        /// This device is on no network that can be used.
        public static let networkNotAvailable = Code(.networkNotAvailable)
        /// The settings' `nearby` is off.
        public static let disabled = Code(.disabled)
        /// This device has as many pairings as it can have.
        public static let limitExceeded = Code(.limitExceeded)
        /// The pairing cannot be stored.
        public static let storageFailed = Code(.storageFailed)
        /// It was cancelled.
        public static let cancelled = Code(.cancelled)
        /// Any other failure.
        public static let failed = Code(.failed)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// What happened and what to do about it.
    public let message: String
    /// The underlying error, if it says more.
    public let cause: (any Error)?

    init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        (self.code, self.message, self.cause) = (code, message, cause)
    }
}

extension DevicePairingError {
    init(_ error: PairingError) {
        let code: Code =
            switch error {
            case .wrong, .otherDevice: .wrongCode
            case .busy: .busy
            case .notPairing: .notPairing
            case .timedOut: .timedOut
            case .ownDevice: .ownDevice
            case .invalidMessage: .failed
            }
        self.init(code, "\(error)", cause: error)
    }

    init(_ error: AppServiceError) {
        switch error.code {
        case .cancelled: self.init(.cancelled, "it was cancelled", cause: error)
        case .timedOut: self.init(.timedOut, "the other device did not answer in time; try again", cause: error)
        case .invalidMessage: self.init(PairingError.invalidMessage)
        // It is visible for something else.
        case .notAuthorized: self.init(PairingError.notPairing)
        default: self.init(.notReached, "the connection to the other device broke off; try again", cause: error)
        }
    }

    init(_ failure: VisibleDialer.Failure) {
        switch failure {
        case .noNetwork: self = .noNetwork
        case .notReached:
            self.init(.notReached, "the other device is not reached on this network; are both on the same one?", cause: failure)
        case .notVisible: self.init(PairingError.notPairing)
        case .ownDevice: self.init(PairingError.ownDevice)
        case .cancelled: self.init(.cancelled, "it was cancelled", cause: failure)
        }
    }

    init(_ end: PairingOffer.End) {
        switch end {
        case .timedOut: self.init(.timedOut, "nobody paired with this device in ten minutes; make it visible again")
        case .tooManyFailures:
            self.init(.tooManyFailures, "three attempts had another code, so this device is not visible any more; make it visible again")
        }
    }

    static let disabled = DevicePairingError(.disabled, "this device does not use the local network; switch it on in its settings")
    package static let noNetwork = DevicePairingError(
        .networkNotAvailable,
        "this device has no network on which others could find it; connect it to one, for example the same Wi-Fi"
    )
}
