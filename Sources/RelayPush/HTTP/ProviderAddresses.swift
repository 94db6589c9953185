// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A provider's base URL, without a final slash: https, or http at a loopback address.
package struct ProviderAddress: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init?(_ text: String) {
        guard let target = DialTarget(text), target.isEncrypted || target.isLoopback else { return nil }
        var url = target.url
        while url.utf8.last == UInt8(ascii: "/") { url.removeLast() }
        self.description = url
    }

    /// The scheme, host and port.
    package var origin: String { DialTarget(description)?.origin ?? description }

    /// - Parameter trusted: An https URL in the source code.
    fileprivate init(trusted: String) { self.description = trusted }
}

/// The base URLs of the providers. An operator can set others, such as a proxy.
package struct ProviderAddresses: Hashable, Sendable {
    package var apns = ProviderAddress(trusted: "https://api.push.apple.com")
    package var apnsSandbox = ProviderAddress(trusted: "https://api.sandbox.push.apple.com")
    package var fcm = ProviderAddress(trusted: "https://fcm.googleapis.com")
    package var fcmToken = ProviderAddress(trusted: "https://oauth2.googleapis.com/token")
    package var wnsUWPToken = ProviderAddress(trusted: "https://login.live.com/accesstoken.srf")
    /// The tenant and path are appended.
    package var wnsAppSDKToken = ProviderAddress(trusted: "https://login.microsoftonline.com")
    /// The only allowed origin of channel URIs. By default, channel URIs at `….notify.windows.com` are allowed.
    package var wnsOrigin: String?

    package init() {}
}
