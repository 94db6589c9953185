// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The apps that the relay can wake: its credentials of push services, at one moment.
package struct WakeableApps: Hashable, Sendable {
    package struct Credential: Hashable, Sendable {
        package var kind: PushRegistration.Kind
        /// Only these apps; `nil`: all.
        package var apps: [String]?
        /// Whether the push service has rejected it, and has accepted no wake with it since.
        package var isRejected: Bool

        package init(_ kind: PushRegistration.Kind, apps: [String]? = nil, isRejected: Bool = false) {
            self.kind = kind
            self.apps = apps
            self.isRejected = isRejected
        }

        /// Compares bytes: app ids come from devices.
        func serves(_ kind: PushRegistration.Kind, _ appID: String) -> Bool {
            self.kind == kind && (apps?.contains { $0.utf8.elementsEqual(appID.utf8) } ?? true)
        }
    }

    package var credentials: [Credential]

    package init(_ credentials: [Credential] = []) { self.credentials = credentials }

    /// Whether there is a credential, rejected or not.
    package func hasCredential(_ kind: PushRegistration.Kind, _ appID: String) -> Bool {
        credentials.contains { $0.serves(kind, appID) }
    }

    /// Whether there is a credential that is not rejected.
    package func canWake(_ kind: PushRegistration.Kind, _ appID: String) -> Bool {
        credentials.contains { !$0.isRejected && $0.serves(kind, appID) }
    }
}
