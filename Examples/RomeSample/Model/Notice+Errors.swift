// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

extension Notice {
    /// The outcome of a launch that did not succeed.
    /// - Parameter device: The device's name.
    init(_ error: RemoteLaunchError, on device: String) {
        let kind: Kind =
            switch error.code {
            case .pending: .progress
            case .indeterminate: .unknown
            default: .problem
            }
        self.init(
            kind: kind,
            title: Self.title(error.code, device),
            reason: ShownText.clean(error.message),
            nextStep: NextStep.after(error.code),
            code: "\(error.code)"
        )
    }

    private static func title(_ code: RemoteLaunchError.Code, _ device: String) -> String {
        switch code {
        case .appUnavailable: "The app is not on \(device)"
        case .protocolUnavailable: "Nothing on \(device) opens this"
        case .remoteSystemUnavailable: "\(device) is gone"
        case .deniedByRemoteSystem: "Declined on \(device)"
        case .failed: "Failed on \(device)"
        case .expired: "Expired, was not opened"
        case .cancelled: "Cancelled, was not opened"
        case .indeterminate: "Not known whether it was opened"
        case .pending: "Accepted, waiting"
        default: "Not sent"
        }
    }

    /// Why an app service was not reached, or gave no answer.
    init(_ error: AppServiceError) {
        // A request whose answer is missing may have been handled.
        let mayHaveRun = [.timedOut, .cancelled, .appServiceConnectionClosed].contains(error.code)
        self.init(
            kind: mayHaveRun ? .unknown : .problem,
            title: mayHaveRun ? "No answer" : "Not reached",
            reason: ShownText.clean(error.message),
            nextStep: error.retryAfter.map { "Try again in \($0.formatted())." } ?? NextStep.after(error.code),
            code: "\(error.code)"
        )
    }

    init(_ error: AccountError) {
        let isDeclined = (error.cause as? AccessTokenError)?.code == .declined
        self = .problem(
            isDeclined ? "Sign-in refused" : "Not signed in",
            ShownText.clean(error.message),
            nextStep: NextStep.after(error.code),
            code: "\(error.code)"
        )
    }

    init(_ error: PlatformError) {
        self = .problem("Not started", error.message, nextStep: "End other copies of this app.", code: "\(error.code)")
    }

    init(_ error: PublishError) {
        self = .problem("Other devices do not see this app", error.message, nextStep: NextStep.after(error.code), code: "\(error.code)")
    }

    init(_ error: NotificationRegistrationError) {
        self = .problem(
            "The relay cannot wake this device",
            ShownText.clean(error.message),
            nextStep: NextStep.after(error.code),
            code: "\(error.code)"
        )
    }

    init(_ error: RemoteSystemWatcherError) {
        self = .problem("Some devices may be missing", ShownText.clean(error.message), code: "\(error.code)")
    }

    /// The connection to the relay.
    init(_ state: ConnectionState) {
        switch state.phase {
        case .connected: self = .success("Connected")
        case .connecting: self = .progress("Connecting", state.problem?.message ?? "")
        case .waiting: self = .progress("Connecting again soon", state.problem?.message ?? "")
        default:
            let needsSignIn = state.problem?.code == .authenticationError
            self = .problem(
                "Not connected",
                state.problem?.message ?? "",
                nextStep: needsSignIn ? "Sign in again." : "",
                code: state.problem.map { "\($0.code)" } ?? ""
            )
        }
    }
}
