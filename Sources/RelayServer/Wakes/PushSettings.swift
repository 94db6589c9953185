// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// How push services are reached.
package struct PushSettings: Hashable, Sendable {
    /// An address of a push service, by the name that it has in the setting.
    package enum Address: String, CaseIterable, Sendable {
        case apns, apnsSandbox, fcm, fcmToken
        /// The only origin of channel addresses.
        case wns
        /// Where tokens for UWP apps, and for apps with the Windows App SDK, come from.
        case wnsPackageToken, wnsAppSDKToken
    }

    /// Addresses other than the services' own, such as those of a proxy: https, or http on loopback.
    package var addresses: [Address: String] = [:]
    /// Whether Web Push endpoints, which devices choose, may be at private addresses, such as a ntfy server at home.
    package var allowsPrivateAddresses = false
    /// Certificates in PEM to trust instead of the system's.
    package var authoritiesFile: String?

    package init() {}
}
