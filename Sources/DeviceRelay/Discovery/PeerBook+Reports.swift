// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

// The errors that watchers receive about statements of the relay.
extension RemoteSystemWatcherError {
    static var accountChanged: Self {
        Self(
            .accountChanged,
            message: "the relay assigned this device to another account; no device of it is known here: confirm each one that is yours"
        )
    }

    static func recordRefused(_ endpoint: EndpointID, _ error: RecordError) -> Self {
        let what: String =
            switch error {
            case .outdated, .versionReused: "an older record than the one that is known"
            case .badSignature, .notPartOfSystem, .wrongEndpoint: "a record that it did not sign"
            case .wrongAccount: "a record of another account"
            case .malformed, .invalidField, .limitExceeded: "a record that cannot be read"
            }
        return Self(
            .recordRefused,
            message:
                "the relay sent \(what) for the endpoint \(endpoint.label); it was left out. Do not trust this relay until you know why"
        )
    }

    /// - Parameter name: The device's name.
    static func revokedByRelay(_ endpoint: EndpointID, name: String) -> Self {
        Self(
            .revokedByRelay,
            message:
                "the relay says that '\(DisplayText.sanitized(name))' (endpoint \(endpoint.label)) was revoked, and no known device signed that; it is refused as long as the relay says so"
        )
    }
}
