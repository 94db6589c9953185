// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import Hummingbird
import HummingbirdTesting
import NIOCore
import RelayProtocol
import Testing

@testable import RelayIssuer

/// A native app that signs its user in with a browser.
struct TestApp: Sendable {
    struct Answer: Decodable, Sendable {
        var status = 0
        var clientID: String?
        var accessToken: String?
        var refreshToken: String?
        var tokenType: String?
        var scope: String?
        var error: String?
        var deviceCode: String?
        var userCode: String?
        var verificationURI: String?
        var verificationURIComplete: String?
        var interval: Int?
        var expiresIn: Int?
        var active: Bool?
        var sub: String?

        enum CodingKeys: String, CodingKey {
            case scope, error, interval, active, sub
            case clientID = "client_id"
            case accessToken = "access_token"
            case refreshToken = "refresh_token"
            case tokenType = "token_type"
            case deviceCode = "device_code"
            case userCode = "user_code"
            case verificationURI = "verification_uri"
            case verificationURIComplete = "verification_uri_complete"
            case expiresIn = "expires_in"
        }
    }

    static let redirect = "http://127.0.0.1/done"

    let client: any TestClientProtocol
    var id = ""
    let device = TestDevice()
    let verifier = Base64.url.encode(randomBytes(32))
    /// The port is chosen when the app starts.
    var redirect = "http://127.0.0.1:49152/done"
    var address = "192.0.2.1"

    init(_ client: any TestClientProtocol, address: String = "192.0.2.1") {
        self.client = client
        self.address = address
    }

    init(registeredAt client: any TestClientProtocol) async throws {
        self.init(client)
        let answer = try await register(
            """
            {"redirect_uris": ["\(Self.redirect)", "com.example.app:/done?x=1"], "client_name": "Example <App>"}
            """
        )
        #expect(answer.status == 201)
        id = try #require(answer.clientID)
    }

    func register(_ json: String) async throws -> Answer { try await send("/register", [.contentType: "application/json"], json) }

    var challenge: String { Base64.url.encode(SHA256.hash(data: Array(verifier.utf8))) }

    /// The query of the app's request.
    func query(_ changes: [String: String] = [:]) -> String {
        let fields = [
            "response_type": "code", "client_id": id, "redirect_uri": redirect, "code_challenge": challenge,
            "code_challenge_method": "S256", "state": "a b&c",
        ]
        return TestDevice.encoded(fields.merging(changes) { $1 }.filter { !$0.value.isEmpty })
    }

    /// A user opens the app's request in a signed-in browser, and allows it or does not.
    func decide(_ browser: TestBrowser, _ decision: String = "allow", _ changes: [String: String] = [:]) async throws -> [String: String] {
        let page = try await browser.get("/authorize?" + query(changes))
        #expect(page.status == 200)
        let request = String(try #require(page.text.firstMatch(of: /name="request" value="([^"]+)"/)).1).replacing("&amp;", with: "&")
        let answer = try await browser.post("/authorize", ["request": request, "decision": decision])
        #expect(answer.status == 303)
        return try parameters(answer.location)
    }

    /// What the app gets at its redirect URI.
    func parameters(_ location: String?) throws -> [String: String] {
        let location = try #require(location)
        #expect(location.hasPrefix(redirect + "?"))
        let items = try #require(URLComponents(string: location)?.queryItems)
        return Dictionary(items.map { ($0.name, $0.value ?? "") }) { first, _ in first }
    }

    func redeem(_ code: String, _ test: TestIssuer, _ changes: [String: String] = [:], isBound: Bool = true) async throws -> Answer {
        let fields = [
            "grant_type": "authorization_code", "code": code, "client_id": id, "redirect_uri": redirect, "code_verifier": verifier,
        ]
        return try await post("/token", fields.merging(changes) { $1 }, proof: isBound ? device.proof(at: test.now) : nil)
    }

    func post(_ path: String, _ fields: [String: String], proof: String? = nil, authorization: String? = nil) async throws -> Answer {
        var headers: HTTPFields = [.contentType: "application/x-www-form-urlencoded"]
        if let proof { headers.append(.init(name: try #require(.init("DPoP")), value: proof)) }
        headers[.authorization] = authorization
        return try await send(path, headers, TestDevice.encoded(fields.filter { !$0.value.isEmpty }))
    }

    private func send(_ path: String, _ fields: HTTPFields, _ body: String) async throws -> Answer {
        var fields = fields
        fields.append(.init(name: try #require(.init("Test-Address")), value: address))
        return try await client.execute(uri: "/auth" + path, method: .post, headers: fields, body: ByteBuffer(string: body)) { response in
            let bytes = Data(response.body.readableBytesView)
            var answer = bytes.isEmpty ? Answer() : try JSONDecoder().decode(Answer.self, from: bytes)
            answer.status = response.status.code
            return answer
        }
    }
}
