// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
package import RelayProtocol

/// What a push service needs to know of the sender.
package enum StoredCredential: Codable, Hashable, Sendable {
    /// Apple: a team's signing key, PKCS #8 in PEM, for the app with this bundle id.
    case apns(team: String, keyID: String, key: Secret<String>, topic: String)
    /// Google: a service account of a project, with its RSA key in PEM.
    case fcm(project: String, clientEmail: String, key: Secret<String>)
    /// Microsoft, UWP apps: the package SID and the client secret.
    case wnsPackage(sid: String, secret: Secret<String>)
    /// Microsoft, apps with the Windows App SDK: an app registration in a tenant.
    case wnsAppSDK(tenant: String, client: String, secret: Secret<String>)
    /// Web Push: a P-256 key in PEM (VAPID), and the contact for push services, a `mailto:` or `https:` URL.
    case webPush(key: Secret<String>, contact: String)

    /// The push type, as registrations name it.
    package var type: String {
        switch self {
        case .apns: "apns"
        case .fcm: "fcm"
        case .wnsPackage, .wnsAppSDK: "wns"
        case .webPush: "webPush"
        }
    }

    /// What the operator may see of it.
    package var label: String {
        switch self {
        case .apns(let team, let keyID, _, let topic): "team \(team), key \(keyID), topic \(topic)"
        case .fcm(let project, let clientEmail, _): "project \(project), \(clientEmail)"
        case .wnsPackage(let sid, _): "package \(sid)"
        case .wnsAppSDK(let tenant, let client, _): "tenant \(tenant), client \(client)"
        case .webPush(let key, let contact): "contact \(contact), public key \(Self.publicKey(of: key) ?? "unknown")"
        }
    }

    /// The uncompressed point of a signing key, in base64url: the application server key of RFC 8292.
    private static func publicKey(of key: Secret<String>) -> String? {
        guard let key = try? P256.Signing.PrivateKey(pemRepresentation: key.exposed) else { return nil }
        return Base64.url.encode(key.publicKey.x963Representation)
    }

    /// Whether the text is a P-256 key in PEM.
    package static func isSigningKey(_ text: String) -> Bool { (try? P256.Signing.PrivateKey(pemRepresentation: text)) != nil }

    /// A new P-256 key in PEM.
    package static func newSigningKey() -> String { P256.Signing.PrivateKey().pemRepresentation }
}
