// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOHTTP1
package import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

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

    /// A token is replaced so long before it expires, in milliseconds.
    static let renewalMargin: Int64 = 5 * 60_000
    /// The longest that WNS keeps a notification, in seconds.
    static let maximumLifetime: Int64 = 30 * 86_400

    private let client: ProviderClient
    private let hosts: HostRule
    private let now: @Sendable () -> Milliseconds
    private let token: CachedToken

    /// Which channel URIs are dialled. A token must not go to another host.
    package enum HostRule: Sendable {
        /// `https://….notify.windows.com`.
        case windows
        /// The origins listed, such as a test's own.
        case origins(Set<String>)
    }

    /// - Parameter tokenAddress: The URL of the token endpoint; `nil` for Microsoft's for the kind of app.
    package init(
        _ credential: Credential,
        client: ProviderClient,
        hosts: HostRule = .windows,
        tokenAddress: String? = nil,
        now: @escaping @Sendable () -> Milliseconds
    ) {
        self.client = client
        self.hosts = hosts
        self.now = now
        let scope: String
        let address: String
        switch credential.kind {
        case .uwp: (scope, address) = ("notify.windows.com", "https://login.live.com/accesstoken.srf")
        case .appSDK(let tenant):
            (scope, address) = (
                "https://wns.windows.com/.default", "https://login.microsoftonline.com/\(URLForm.escape(tenant))/oauth2/v2.0/token"
            )
        }
        let form = URLForm.encode([
            ("grant_type", "client_credentials"), ("client_id", credential.client), ("client_secret", credential.secret.exposed),
            ("scope", scope),
        ])
        self.token = CachedToken(now: now) { () async throws(PushOutcomeError) in
            try await CachedToken.request(form, at: tokenAddress ?? address, client, now(), margin: Self.renewalMargin)
        }
    }

    package func send(_ wake: Wake, to registration: PushRegistration) async -> PushOutcome {
        guard case .wns(let channel) = registration else { return .invalid(reason: "no WNS registration") }
        guard let target = DialTarget(channel.exposed), allows(target) else {
            return .forbidden(reason: "the channel URI is not at a host of WNS")
        }
        let isUrgent = wake.payload.urgency == .urgent
        return await token.send { token throws(ProviderClient.Failure) in
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

    private func allows(_ target: DialTarget) -> Bool {
        switch hosts {
        case .windows: target.isEncrypted && target.port == 443 && target.host.utf8.suffix(19).elementsEqual(".notify.windows.com".utf8)
        case .origins(let origins): origins.contains(target.origin)
        }
    }

    /// A toast whose launch argument is the payload, or the payload itself.
    static func body(_ wake: Wake) -> [UInt8] {
        let json = #"{"\#(WakePayload.key)":\#(wake.payload.json)}"#
        guard wake.payload.urgency == .urgent else { return Array(json.utf8) }
        let launch = json.replacing("\"", with: "&quot;")
        let text = "<binding template=\"ToastGeneric\"><text>ms-resource:ROME_CONNECT_TEXT_MANY</text></binding>"
        return Array("<toast launch=\"\(launch)\"><visual>\(text)</visual></toast>".utf8)
    }

    static func outcome(of reply: ProviderClient.Reply, now: Milliseconds) -> PushOutcome {
        let detail = reply.headers.first(name: "X-WNS-Error-Description").map { String($0.prefix(200)) } ?? "status \(reply.status)"
        switch reply.status {
        case 200:
            // 200 is no success by itself.
            switch reply.headers.first(name: "X-WNS-Status") {
            // Such as while notifications are off for the app: nothing is gained by sending it again soon.
            case "dropped": return .dropped(reason: "WNS dropped the notification")
            case "channelthrottled": return .throttled(scope: .registration, wait: reply.retryAfter(now: now))
            default: return .accepted(id: reply.headers.first(name: "X-WNS-Msg-ID"))
            }
        case 401: return .credentialRejected(reason: detail)
        // The channel URI is another app's.
        case 403: return .mismatched(reason: detail)
        case 404, 410: return .gone(since: nil)
        case 406, 429: return .throttled(scope: .credential, wait: reply.retryAfter(now: now))
        case 503:
            guard let wait = reply.retryAfter(now: now) else { return .failed(reason: detail) }
            return .throttled(scope: .credential, wait: wait)
        case 500...599: return .failed(reason: detail)
        default: return .invalid(reason: detail)
        }
    }
}

/// `application/x-www-form-urlencoded`.
enum URLForm {
    static func encode(_ fields: [(name: String, value: String)]) -> String {
        fields.map { "\(escape($0.name))=\(escape($0.value))" }.joined(separator: "&")
    }

    /// Percent-encodes all but the unreserved characters (RFC 3986 §2.3).
    static func escape(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                bytes.append(byte)
            default: bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
