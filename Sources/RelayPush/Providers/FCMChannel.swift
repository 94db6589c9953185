// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CryptoExtras
import Foundation
import NIOHTTP1
package import RelayProtocol

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

    private struct Claims: Encodable {
        let iss: String
        let scope: String
        let aud: String
        let iat: NumericDate
        let exp: NumericDate
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

    /// The `aud` claim of the assertion: Google's own token endpoint, even if the operator sets another address for it.
    static let audience = "https://oauth2.googleapis.com/token"
    static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    /// The longest time for which Google stores a message, in seconds.
    static let maximumLifetime: Int64 = 2_419_200
    /// How long before its expiry a token is replaced, in milliseconds.
    static let renewalMargin: Int64 = 5 * 60_000

    package let service = PushService.fcm
    private let credential: Credential
    private let client: ProviderClient
    private let address: ProviderAddress
    private let now: @Sendable () -> Milliseconds
    private let token: CachedToken

    package init(
        _ credential: Credential,
        client: ProviderClient,
        addresses: ProviderAddresses = ProviderAddresses(),
        sharedToken: (any SharedToken)? = nil,
        now: @escaping @Sendable () -> Milliseconds
    ) {
        self.credential = credential
        self.client = client
        self.address = addresses.fcm
        self.now = now
        self.token = CachedToken(shared: sharedToken, now: now) { () async throws(PushOutcomeError) in
            try await Self.token(for: credential, at: addresses.fcmToken, client, now())
        }
    }

    /// Exchanges a signed assertion for an access token (RFC 7523 §2.1).
    private static func token(
        for credential: Credential,
        at address: ProviderAddress,
        _ client: ProviderClient,
        _ now: Milliseconds
    ) async throws(PushOutcomeError) -> ProviderToken {
        let assertion: String
        do {
            let key = try _RSA.Signing.PrivateKey(pemRepresentation: credential.key.exposed)
            let claims = Claims(
                iss: credential.clientEmail,
                scope: scope,
                aud: audience,
                iat: NumericDate(now),
                exp: NumericDate(Milliseconds(clamping: now.count + 3_600_000))
            )
            // RS256 is the only algorithm that Google accepts here.
            let signed = try [JSONEncoder().encode(["alg": "RS256", "typ": "JWT"]), JSONEncoder().encode(claims)]
                .map { Base64.url.encode(Array($0)) }.joined(separator: ".")
            let signature = try key.signature(for: Array(signed.utf8), padding: .insecurePKCS1v1_5)
            assertion = signed + "." + Base64.url.encode(Array(signature.rawRepresentation))
        } catch {
            throw PushOutcomeError(outcome: .credentialRejected(reason: "the service account's key is no RSA key in PEM"))
        }
        let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
        return try await CachedToken.request(form, at: address, client, now, margin: renewalMargin)
    }

    package func shutdown() async { await client.shutdown() }

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
            let url = "\(address)/v1/projects/\(FormCoding.encode(credential.project))/messages:send"
            return Self.outcome(of: try await client.post(url, headers: headers, body: Array(body)), now: now())
        }
    }

    static func outcome(of reply: ProviderClient.Reply, now: Milliseconds) -> PushOutcome {
        struct Name: Decodable { var name: String? }
        let summary = reply.summary(
            now: now,
            reason: (try? JSONDecoder().decode(Problem.self, from: Data(reply.body)))?.code,
            id: (try? JSONDecoder().decode(Name.self, from: Data(reply.body)))?.name
        )
        return PushRetryTable.outcome(of: summary, from: .fcm)
    }
}
