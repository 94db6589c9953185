// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import NIOSSL
package import RelayProtocol

/// What a relay needs to send wakes for one app by one provider.
package enum PushCredential: Sendable {
    case apns(APNsChannel.Credential)
    case fcm(FCMChannel.Credential)
    case wns(WNSChannel.Credential)
    case webPush(WebPushChannel.Credential)
}

/// Makes the channels for credentials.
package struct PushChannels: Sendable {
    package var addresses = ProviderAddresses()
    /// Which addresses Web Push endpoints may have. Users choose these endpoints.
    package var webPush = WebPushDialer.Policy()
    /// The timeout of a whole exchange with a provider.
    package var timeout = Duration.seconds(15)
    /// The trusted certificates; the system's by default.
    package var roots = NIOSSLTrustRoots.default

    private let group: any EventLoopGroup
    private let now: @Sendable () -> Milliseconds

    /// - Parameter now: The time since 1970.
    package init(group: any EventLoopGroup, now: @escaping @Sendable () -> Milliseconds = WakeClock.system.time) {
        self.group = group
        self.now = now
    }

    /// Returns a new channel. The caller must call its ``PushChannel/shutdown()``.
    /// - Parameter token: Where nodes share the credential's token; `nil` if the relay has one node.
    package func channel(for credential: PushCredential, sharing token: (any SharedToken)? = nil) -> any PushChannel {
        func client(http1Only: Bool = false) -> ProviderClient {
            ProviderClient(http1Only: http1Only, group: group, roots: roots, timeout: timeout)
        }
        switch credential {
        case .apns(let credential):
            return APNsChannel(credential, client: client(), addresses: addresses, sharedToken: token, now: now)
        case .fcm(let credential):
            return FCMChannel(credential, client: client(), addresses: addresses, sharedToken: token, now: now)
        // WNS requires HTTP/1.1.
        case .wns(let credential):
            let client = client(http1Only: true)
            return WNSChannel(credential, client: client, addresses: addresses, sharedToken: token, now: now)
        case .webPush(let credential):
            let dialer = WebPushDialer(webPush, group: group, roots: roots, timeout: timeout)
            return WebPushChannel(credential, dialer: dialer, now: now)
        }
    }
}
