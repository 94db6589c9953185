// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import NIOHTTP1
package import RelayProtocol

/// Apple's push service, with token authentication.
///
/// Until Apple has accepted a first push on a connection, it allows one stream at a time. It announces this in the HTTP/2 setting for
/// concurrent streams, which the client respects.
package struct APNsChannel: PushChannel {
    /// The credentials of one team.
    package struct Credential: Sendable {
        /// The team and key identifiers, ten characters each.
        package let team: String
        package let keyID: String
        /// The key, a PKCS #8 PEM ("p8").
        package let key: Secret<String>
        /// The bundle identifier of the app.
        package let topic: String

        package init(team: String, keyID: String, key: Secret<String>, topic: String) {
            self.team = team
            self.keyID = keyID
            self.key = key
            self.topic = topic
        }
    }

    private struct Claims: Encodable {
        let iss: String
        let iat: NumericDate
    }

    /// In milliseconds. Apple rejects tokens that are older than an hour, and tokens that are renewed more often than every 20 minutes.
    static let tokenLifetime: Int64 = 50 * 60_000
    static let minimumTokenAge: Int64 = 20 * 60_000
    /// The longest time for which Apple stores a push, in seconds.
    static let maximumLifetime: Int64 = 30 * 86_400

    package let service = PushService.apns
    private let credential: Credential
    private let client: ProviderClient
    private let addresses: [PushRegistration.APNsEnvironment: ProviderAddress]
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
        self.addresses = [.production: addresses.apns, .sandbox: addresses.apnsSandbox]
        self.now = now
        self.token = CachedToken(minimumAge: Self.minimumTokenAge, shared: sharedToken, now: now) { () async throws(PushOutcomeError) in
            try await Self.token(for: credential, at: now())
        }
    }

    package func shutdown() async { await client.shutdown() }

    private static func token(for credential: Credential, at now: Milliseconds) async throws(PushOutcomeError) -> ProviderToken {
        do {
            let text = try SignedJSON.sign(
                Claims(iss: credential.team, iat: NumericDate(now)),
                header: SignedJSON.Header(alg: "ES256", kid: credential.keyID),
                with: P256SigningKey(pem: credential.key.exposed)
            )
            return ProviderToken(text: Secret(text), made: now, renewal: Milliseconds(clamping: now.count + Self.tokenLifetime))
        } catch {
            throw PushOutcomeError(outcome: .credentialRejected(reason: "the APNs key is not a P-256 key in PEM"))
        }
    }

    package func send(_ wake: Wake, to registration: PushRegistration) async -> PushOutcome {
        guard case .apns(let device, let environment) = registration, let address = addresses[environment] else {
            return .invalid(reason: "no APNs registration")
        }
        guard (1...200).contains(device.exposed.utf8.count), device.exposed.utf8.allSatisfy(Self.isHexadecimal) else {
            return .gone(since: nil)
        }
        return await token.send { token throws(ProviderClient.Failure) in
            let url = "\(address)/3/device/\(device.exposed)"
            return Self.outcome(of: try await client.post(url, headers: headers(wake, token: token), body: Self.body(wake)), now: now())
        }
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"), UInt8(ascii: "A")...UInt8(ascii: "F"): true
        default: false
        }
    }

    private func headers(_ wake: Wake, token: String) -> HTTPHeaders {
        let isUrgent = wake.payload.urgency == .urgent
        let lifetime = wake.lifetime(at: now(), in: 0...Self.maximumLifetime)
        return [
            "authorization": "bearer \(token)",
            "apns-topic": credential.topic,
            "apns-push-type": isUrgent ? "alert" : "background",
            "apns-priority": isUrgent ? "10" : "5",
            "apns-expiration": lifetime == 0 ? "0" : "\(now().count / 1_000 + lifetime)",
            // A later wake replaces an earlier one. The id has 52 of the 64 bytes allowed.
            "apns-collapse-id": wake.payload.endpoint.description,
        ]
    }

    static func body(_ wake: Wake) -> [UInt8] {
        let aps =
            switch wake.payload.urgency {
            case .urgent: #"{"alert":\#(alert(wake.alert)),"mutable-content":1}"#
            case .background: #"{"content-available":1}"#
            }
        return Array(#"{"aps":\#(aps),"\#(WakePayload.key)":\#(wake.payload.json)}"#.utf8)
    }

    /// Returns the alert in JSON. Its arguments are names that devices choose, so they are escaped.
    private static func alert(_ alert: WakeAlert) -> String {
        guard !alert.arguments.isEmpty else { return #"{"loc-key":"\#(alert.key)"}"# }
        var arguments = JSONWriter()
        arguments.array(alert.arguments)
        return #"{"loc-key":"\#(alert.key)","loc-args":\#(String(decoding: arguments.bytes, as: UTF8.self))}"#
    }

    private struct Problem: Decodable {
        var reason: String?
        /// Milliseconds since 1970, with 410.
        var timestamp: Int64?
    }

    static func outcome(of reply: ProviderClient.Reply, now: Milliseconds) -> PushOutcome {
        let problem = try? JSONDecoder().decode(Problem.self, from: Data(reply.body))
        let summary = reply.summary(
            now: now,
            reason: problem?.reason,
            id: reply.headers.first(name: "apns-id"),
            since: problem?.timestamp.map { Milliseconds(clamping: $0) }
        )
        return PushRetryTable.outcome(of: summary, from: .apns)
    }
}

extension P256SigningKey {
    /// Reads a private key in PEM, PKCS #8 ("p8") or SEC 1.
    init(pem: String) throws {
        try self.init(rawRepresentation: Array(P256.Signing.PrivateKey(pemRepresentation: pem).rawRepresentation))
    }
}
