// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import NIOHTTP1
package import RelayProtocol

/// Web Push (RFC 8030) with encryption (RFC 8291) and VAPID (RFC 8292): browsers, UnifiedPush and ntfy.
package struct WebPushChannel: PushChannel {
    package struct Credential: Sendable {
        /// The relay's signing key (VAPID), a P-256 key in PEM.
        package let key: Secret<String>
        /// The contact for push services: a `mailto:` or `https:` URL.
        package let contact: String

        package init(key: Secret<String>, contact: String) {
            self.key = key
            self.contact = contact
        }
    }

    private struct Claims: Encodable {
        let aud: String
        let exp: NumericDate
        let sub: String
    }

    /// In milliseconds. RFC 8292 §2 allows 24 hours.
    static let tokenLifetime: Int64 = 12 * 3_600_000
    /// The maximum length of a push endpoint's URL. The URLs of push services are shorter.
    static let maximumEndpointBytes = 1_000
    /// The longest time for which a push service is asked to store a wake, in seconds.
    static let maximumLifetime: Int64 = 30 * 86_400

    package let service = PushService.webPush
    private let credential: Credential
    private let dialer: any WebPushDialing
    private let now: @Sendable () -> Milliseconds

    package init(_ credential: Credential, dialer: any WebPushDialing, now: @escaping @Sendable () -> Milliseconds) {
        self.credential = credential
        self.dialer = dialer
        self.now = now
    }

    package func shutdown() async { await dialer.shutdown() }

    package func send(_ wake: Wake, to registration: PushRegistration) async -> PushOutcome {
        guard case .webPush(let endpoint, let publicKey, let secret) = registration else {
            return .invalid(reason: "no Web Push registration")
        }
        guard endpoint.exposed.utf8.count <= Self.maximumEndpointBytes, let target = DialTarget(endpoint.exposed) else {
            return .forbidden(reason: "the push endpoint is no http or https URL")
        }
        let body: [UInt8]
        do throws(WebPushEncryption.Failure) {
            let content = Array(#"{"\#(WakePayload.key)":\#(wake.payload.json)}"#.utf8)
            body = try WebPushEncryption.encrypt(content, for: publicKey.bytes, secret: secret.exposed.bytes)
        } catch {
            // A registration with such a key can never work.
            return .gone(since: nil)
        }
        guard let authorization = authorization(for: target.origin) else {
            return .credentialRejected(reason: "the VAPID key is not a P-256 key in PEM")
        }
        let headers: HTTPHeaders = [
            "Authorization": authorization,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": "\(wake.lifetime(at: now(), in: 0...Self.maximumLifetime))",
            "Urgency": wake.payload.urgency == .urgent ? "high" : "normal",
            // A later wake replaces an earlier one. A topic has at most 32 characters.
            "Topic": String(wake.payload.endpoint.description.prefix(32)),
        ]
        do throws(WebPushDialError) {
            return PushRetryTable.outcome(
                of: try await dialer.post(target, headers: headers, body: body).summary(now: now()),
                from: .webPush
            )
        } catch {
            switch error {
            case .forbidden(let reason): return .forbidden(reason: reason)
            case .unreachable: return .failed(scope: .registration, reason: "the push service cannot be reached")
            }
        }
    }

    /// - Returns: `nil` if the key cannot be read.
    private func authorization(for origin: String) -> String? {
        guard let key = try? P256.Signing.PrivateKey(pemRepresentation: credential.key.exposed) else { return nil }
        let expiry = Milliseconds(clamping: now().count + Self.tokenLifetime)
        let claims = Claims(aud: origin, exp: NumericDate(expiry), sub: credential.contact)
        let header = SignedJSON.Header(alg: "ES256", typ: "JWT")
        guard let signer = try? P256SigningKey(rawRepresentation: Array(key.rawRepresentation)),
            let token = try? SignedJSON.sign(claims, header: header, with: signer)
        else { return nil }
        return "vapid t=\(token),k=\(Base64.url.encode(Array(key.publicKey.x963Representation)))"
    }
}
