// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import RelayProtocol
import Testing

@testable import RelayIssuer

/// An authenticator with one key, and the browser that asks it.
struct TestAuthenticator: Sendable {
    let key = P256.Signing.PrivateKey()
    let id = randomBytes(20)
    var origin = TestIssuer.origin
    var host = "relay.example"
    var crossOrigin: Bool?
    var flags: UInt8 = 0x05
    var counter: UInt32 = 0

    /// The challenge of a page's form.
    static func challenge(_ page: TestBrowser.Page, _ kind: String) throws -> String {
        let found = try #require(page.text.firstMatch(of: try Regex("data-passkey=\"\(kind)\" data-challenge=\"([^\"]+)\"")))
        return String(found[1].substring ?? "")
    }

    private func clientData(_ type: String, _ challenge: String) throws -> [UInt8] {
        var members: [String: Any] = ["type": type, "challenge": challenge, "origin": origin]
        members["crossOrigin"] = crossOrigin
        return Array(try JSONSerialization.data(withJSONObject: members))
    }

    private func data(_ more: [UInt8] = []) -> [UInt8] {
        SHA256.hash(data: Array(host.utf8)) + [flags | (more.isEmpty ? 0 : 0x40)]
            + (0..<4).reversed().map { UInt8(truncatingIfNeeded: counter >> ($0 * 8)) } + more
    }

    /// The fields with a new passkey.
    func create(_ challenge: String, type: String = "webauthn.create") throws -> [String: String] {
        let attested = [UInt8](repeating: 0, count: 16) + [0, UInt8(id.count)] + id + [0xA0]
        return [
            "client_data": Base64.url.encode(try clientData(type, challenge)), "authenticator_data": Base64.url.encode(data(attested)),
            "public_key": Base64.url.encode(Array(key.publicKey.derRepresentation)), "algorithm": "-7",
        ]
    }

    /// The fields that sign in.
    func get(_ challenge: String, type: String = "webauthn.get", key: P256.Signing.PrivateKey? = nil) throws -> [String: String] {
        let client = try clientData(type, challenge)
        let signature = try (key ?? self.key).signature(for: data() + SHA256.hash(data: client))
        return [
            "client_data": Base64.url.encode(client), "authenticator_data": Base64.url.encode(data()), "credential": Base64.url.encode(id),
            "signature": Base64.url.encode(Array(signature.derRepresentation)),
        ]
    }
}
