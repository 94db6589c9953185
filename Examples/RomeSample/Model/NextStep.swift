// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// What the person can do after an error, where the error's message does not say it.
enum NextStep {
    static func after(_ code: RemoteLaunchError.Code) -> String {
        switch code {
        case .appUnavailable: "Choose another app of the device, or open the app there once."
        case .protocolUnavailable: "Give a fallback address, such as the web page of the same content, or install an app there."
        case .remoteSystemUnavailable: "Choose another device: this one has left the account."
        case .valueSetTooLarge: "Shorten the address."
        case .deniedByRemoteSystem: "Allow it on the other device, and launch again."
        case .invalidURI: "Correct the address."
        case .ambiguous: "Choose one of the apps of the device."
        case .notConfirmed: "Approve the device in New devices, or on another device."
        case .failed: "Look at the other device, then launch again."
        case .expired: "Launch again, and let it wait longer."
        case .cancelled: "Launch again if you still want it."
        case .indeterminate: "Look at the other device before you launch again."
        case .pending: "Nothing: it goes on by itself. Sent shows how it ends."
        case .notAccepted: "Wait a moment, and launch again."
        case .relayUnavailable: "Check the network of this device, and launch again."
        case .notSignedIn: "Sign in."
        case .storageFailed: "Free some space on this device, and launch again."
        default: "Try again."
        }
    }

    static func after(_ code: AppServiceError.Code) -> String {
        switch code {
        case .appNotInstalled, .appServiceUnavailable: "Choose a device that runs this sample."
        case .appUnavailable, .webServiceUnavailable, .resourceLimitsExceeded: "Try again in a moment."
        case .remoteSystemUnavailable: "Check that the other device is on, or send a message that waits for it."
        case .remoteSystemNotSupportedByApp, .notAuthorized, .disabledByPolicy: "Allow this device on the other one."
        case .authenticationError: "Sign in again on both devices."
        case .networkNotAvailable: "Check the network of this device."
        case .messageTooLarge: "Send less."
        case .appServiceConnectionClosed: "Connect again."
        case .wakeSuppressed: "Send a message that waits, or try again later."
        case .timedOut: "Open the app on the other device, or send a message that waits for it."
        default: "Try again."
        }
    }

    static func after(_ code: AccountError.Code) -> String {
        switch code {
        case .networkNotAvailable: "Check the network and the address, and try again."
        case .serviceFailed: "Try again later, or ask the relay's operator."
        case .noAccessTokenProvider, .accessTokenRequestFailed: "Sign in again."
        case .linkInvalid: "Ask for a new link: each works once, for ten minutes."
        case .otherRelay: "Check the address with the relay's operator."
        case .storageFailed: "Free some space on this device."
        case .alreadyAdded: "Sign out first."
        case .identityOfOtherAccount, .accountNotConfirmed: "Sign in as the person whose devices these are."
        case .notEstablished: "Approve this device on another one."
        default: "Try again."
        }
    }

    static func after(_ code: NotificationRegistrationError.Code) -> String {
        switch code {
        case .notSupported: "Ask the relay's operator for a push credential of this app."
        case .accountNotFound: "Sign in."
        case .relayUnavailable, .notHosting, .cancelled: ""
        default: "Open the app again."
        }
    }

    static func after(_ code: PublishError.Code) -> String {
        switch code {
        case .relayUnavailable, .cancelled: ""
        case .notSignedIn: "Sign in."
        case .endpointInUse: "End the other copy of this app."
        default: "Try again."
        }
    }
}
