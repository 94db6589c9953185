// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import AsyncHTTPClient
import JWTKit
import NIOHTTP1
package import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Google's push service, HTTP v1, with a service account.
package struct FCMChannel: PushChannel {
    /// The fields of a service account's JSON file that are needed.
    package struct Credential: Sendable {
        package let project: String
        package let clientEmail: String
        /// The private key, an RSA key in PEM.
        package let key: Secret<String>

        package init(project: String, clientEmail: String, key: Secret<String>) {
            self.project = project
            self.clientEmail = clientEmail
            self.key = key
        }
    }

    private struct Claims: JWTPayload {
        let iss: IssuerClaim
        let scope: String
        let aud: AudienceClaim
        let iat: IssuedAtClaim
        let exp: ExpirationClaim
        func verify(using algorithm: some JWTAlgorithm) async throws {}
    }

    private struct Message: Encodable {
        struct Android: Encodable {
            var priority: String
            var ttl: String
            var collapseKey: String

            enum CodingKeys: String, CodingKey {
                case priority, ttl
                case collapseKey = "collapse_key"
            }
        }
        struct Content: Encodable {
            var token: String
            var data: [String: String]
            var android: Android
        }
        var message: Content
    }

    private struct Problem: Decodable {
        struct Detail: Decodable { var errorCode: String? }
        struct Content: Decodable {
            var status: String?
            var details: [Detail]?
        }
        var error: Content?

        var code: String? { error?.details?.lazy.compactMap(\.errorCode).first ?? error?.status }
    }

    static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    /// The longest that Google keeps a message, in seconds.
    static let maximumLifetime: Int64 = 2_419_200
    /// A token is replaced so long before it expires, in milliseconds.
    static let renewalMargin: Int64 = 5 * 60_000

    private let credential: Credential
    private let client: ProviderClient
    private let address: String
    private let now: @Sendable () -> Milliseconds
    private let token: CachedToken

    /// - Parameters:
    ///   - address: The base URL of the message service, without a path.
    ///   - tokenAddress: The URL of the token endpoint.
    package init(
        _ credential: Credential,
        client: ProviderClient,
        address: String = "https://fcm.googleapis.com",
        tokenAddress: String = "https://oauth2.googleapis.com/token",
        now: @escaping @Sendable () -> Milliseconds
    ) {
        self.credential = credential
        self.client = client
        self.address = address
        self.now = now
        self.token = CachedToken(now: now) { () async throws(PushOutcomeError) in
            try await Self.token(for: credential, at: tokenAddress, client, now())
        }
    }

    /// Exchanges a signed assertion for an access token (RFC 7523 §2.1).
    private static func token(
        for credential: Credential,
        at address: String,
        _ client: ProviderClient,
        _ now: Milliseconds
    ) async throws(PushOutcomeError) -> CachedToken.Token {
        let assertion: String
        do {
            let keys = JWTKeyCollection()
            let key = try Insecure.RSA.PrivateKey(pem: credential.key.exposed)
            await keys.add(rsa: key, digestAlgorithm: .sha256)
            let issued = Date(timeIntervalSince1970: Double(now.count / 1_000))
            assertion = try await keys.sign(
                Claims(
                    iss: .init(value: credential.clientEmail),
                    scope: scope,
                    aud: .init(value: address),
                    iat: .init(value: issued),
                    exp: .init(value: issued.addingTimeInterval(3_600))
                )
            )
        } catch {
            throw PushOutcomeError(outcome: .credentialRejected(reason: "the service account's key is no RSA key in PEM"))
        }
        let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
        return try await CachedToken.request(form, at: address, client, now, margin: renewalMargin)
    }

    package func send(_ wake: Wake, to registration: PushRegistration) async -> PushOutcome {
        guard case .fcm(let device) = registration else { return .invalid(reason: "no FCM registration") }
        let isUrgent = wake.payload.urgency == .urgent
        let message = Message(
            message: .init(
                token: device.exposed,
                data: [WakePayload.key: wake.payload.json],
                android: .init(
                    priority: isUrgent ? "high" : "normal",
                    ttl: "\(wake.lifetime(at: now(), in: 0...Self.maximumLifetime))s",
                    collapseKey: wake.payload.endpoint.description
                )
            )
        )
        guard let body = try? JSONEncoder().encode(message) else { return .invalid(reason: "the registration is no text") }
        return await token.send { token throws(ProviderClient.Failure) in
            let headers: HTTPHeaders = ["Authorization": "Bearer \(token)", "Content-Type": "application/json"]
            let url = "\(address)/v1/projects/\(URLForm.escape(credential.project))/messages:send"
            return Self.outcome(of: try await client.post(url, headers: headers, body: Array(body)), now: now())
        }
    }

    static func outcome(of reply: ProviderClient.Reply, now: Milliseconds) -> PushOutcome {
        struct Name: Decodable { var name: String? }
        if reply.status == 200 {
            return .accepted(id: (try? JSONDecoder().decode(Name.self, from: Data(reply.body)))?.name)
        }
        let code =
            (try? JSONDecoder().decode(Problem.self, from: Data(reply.body)))?.code.map { String($0.prefix(100)) }
            ?? "status \(reply.status)"
        switch (reply.status, code) {
        case (404, "UNREGISTERED"): return .gone(since: nil)
        // The sender's credentials for Apple's service or Web Push, which FCM forwards some registrations to.
        case (401, "THIRD_PARTY_AUTH_ERROR"), (403, "SENDER_ID_MISMATCH"): return .mismatched(reason: code)
        case (401, _): return .credentialRejected(reason: code)
        case (403, _), (404, _): return .misconfigured(reason: code)
        case (429, _): return .throttled(scope: .credential, wait: reply.retryAfter(now: now))
        case (503, _):
            guard let wait = reply.retryAfter(now: now) else { return .failed(reason: code) }
            return .throttled(scope: .credential, wait: wait)
        case (500...599, _): return .failed(reason: code)
        default: return .invalid(reason: code)
        }
    }
}
