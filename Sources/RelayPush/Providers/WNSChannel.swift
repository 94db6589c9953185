// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOHTTP1
package import RelayProtocol

/// Windows' push service. Its client must speak HTTP/1.1 (`httpVersion = .http1Only`); bodies have a fixed length, as WNS requires.
package struct WNSChannel: PushChannel {
    package struct Credential: Sendable {
        /// The two kinds of registration are not interchangeable.
        package enum Kind: Sendable {
            /// A UWP app: the package SID.
            case uwp
            /// An app of the Windows App SDK: the client id of an app registration in a tenant.
            case appSDK(tenant: String)
        }

        package let kind: Kind
        /// The package SID or client id.
        package let client: String
        package let secret: Secret<String>

        package init(kind: Kind, client: String, secret: Secret<String>) {
            self.kind = kind
            self.client = client
            self.secret = secret
        }
    }

    /// How long before its expiry a token is replaced, in milliseconds.
    static let renewalMargin: Int64 = 5 * 60_000
    /// The longest time for which WNS stores a notification, in seconds.
    static let maximumLifetime: Int64 = 30 * 86_400

    package let service = PushService.wns
    private let client: ProviderClient
    /// The only allowed origin of channel URIs; `nil` allows the hosts of WNS.
    private let origin: String?
    private let now: @Sendable () -> Milliseconds
    private let token: CachedToken

    package init(
        _ credential: Credential,
        client: ProviderClient,
        addresses: ProviderAddresses = ProviderAddresses(),
        sharedToken: (any SharedToken)? = nil,
        now: @escaping @Sendable () -> Milliseconds
    ) {
        self.client = client
        self.origin = addresses.wnsOrigin
        self.now = now
        let scope: String
        let address: String
        switch credential.kind {
        case .uwp: (scope, address) = ("notify.windows.com", "\(addresses.wnsUWPToken)")
        case .appSDK(let tenant):
            (scope, address) = (
                "https://wns.windows.com/.default", "\(addresses.wnsAppSDKToken)/\(FormCoding.encode(tenant))/oauth2/v2.0/token"
            )
        }
        let form = [
            ("grant_type", "client_credentials"), ("client_id", credential.client), ("client_secret", credential.secret.exposed),
            ("scope", scope),
        ].map { "\($0)=\(FormCoding.encode($1))" }.joined(separator: "&")
        self.token = CachedToken(shared: sharedToken, now: now) { () async throws(PushOutcomeError) in
            try await CachedToken.request(form, at: address, client, now(), margin: Self.renewalMargin)
        }
    }

    package func shutdown() async { await client.shutdown() }

    package func send(_ wake: Wake, to registration: PushRegistration) async -> PushOutcome {
        guard case .wns(let channel) = registration else { return .invalid(reason: "no WNS registration") }
        guard let target = DialTarget(channel.exposed), allows(target) else {
            return .forbidden(reason: "the channel URI is not at a host of WNS")
        }
        let isUrgent = wake.payload.urgency == .urgent
        return await token.send(failureScope: .registration) { token throws(ProviderClient.Failure) in
            let headers: HTTPHeaders = [
                "Authorization": "Bearer \(token)",
                "Content-Type": isUrgent ? "text/xml" : "application/octet-stream",
                "X-WNS-Type": isUrgent ? "wns/toast" : "wns/raw",
                "X-WNS-Cache-Policy": "cache",
                "X-WNS-RequestForStatus": "true",
                "X-WNS-TTL": "\(wake.lifetime(at: now(), in: 1...Self.maximumLifetime))",
            ]
            return Self.outcome(of: try await client.post(target.url, headers: headers, body: Self.body(wake)), now: now())
        }
    }

    /// Whether a token may be sent to the target. It must not go to another host.
    private func allows(_ target: DialTarget) -> Bool {
        if let origin { return target.origin == origin }
        let suffix = ".notify.windows.com"
        return target.isEncrypted && target.port == 443 && target.host.utf8.count > suffix.utf8.count
            && target.host.utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8)
    }

    /// Returns a toast with the payload as its launch argument if the wake is urgent, otherwise the payload itself.
    static func body(_ wake: Wake) -> [UInt8] {
        let json = #"{"\#(WakePayload.key)":\#(wake.payload.json)}"#
        guard wake.payload.urgency == .urgent else { return Array(json.utf8) }
        let launch = json.replacing("\"", with: "&quot;")
        // A text from the app's resources cannot have arguments.
        let text = "<binding template=\"ToastGeneric\"><text>ms-resource:\(WakeAlert.general.key)</text></binding>"
        return Array("<toast launch=\"\(launch)\"><visual>\(text)</visual></toast>".utf8)
    }

    static func outcome(of reply: ProviderClient.Reply, now: Milliseconds) -> PushOutcome {
        let reason =
            if reply.status == 200 {
                reply.headers.first(name: "X-WNS-Status")
            } else {
                // The header is a sentence. Without spaces, a short one is a name that the retry table can use.
                reply.headers.first(name: "X-WNS-Error-Description")?.filter { $0 != " " }
            }
        let summary = reply.summary(now: now, reason: reason, id: reply.headers.first(name: "X-WNS-Msg-ID"))
        return PushRetryTable.outcome(of: summary, from: .wns)
    }
}
