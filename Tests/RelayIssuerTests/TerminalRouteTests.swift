// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import HummingbirdTesting
import NIOCore
import RelayProtocol
import Testing

@testable import RelayIssuer

/// What a person types at a device's terminal.
@Suite struct TerminalRouteTests {
    static let client = "com.example.television"

    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    private struct Answer: Sendable {
        var status: Int
        var json: JSONValue?
        var retryAfter: String?

        func text(_ member: String) throws -> String { try #require(json).member(member) }
    }

    private func post(
        _ client: any TestClientProtocol,
        _ place: String,
        _ fields: [String: String],
        origin: String? = nil,
        address: String = "192.0.2.1"
    ) async throws -> Answer {
        var headers: HTTPFields = [.contentType: "application/x-www-form-urlencoded", .userAgent: "relay"]
        headers[.origin] = origin
        headers.append(.init(name: try #require(.init("Test-Address")), value: address))
        let body = ByteBuffer(string: TestDevice.encoded(fields))
        return try await client.execute(uri: "/auth/terminal/\(place)", method: .post, headers: headers, body: body) {
            Answer(
                status: $0.status.code,
                json: try? JSONValue(parsing: Array($0.body.readableBytesView)),
                retryAfter: $0.headers[.retryAfter]
            )
        }
    }

    private func token() async throws -> String {
        let link = try await test.issuer.setUpLink(subject: test.ada(), origin: TestIssuer.origin).exposed
        return try #require(link.split(separator: "=").last.map(String.init))
    }

    @Test func passwordLetsADeviceIn() async throws {
        let subject = try await test.ada()
        try await test.browse { client in
            let set = try await post(client, "password", ["token": try await token(), "new_password": TestBrowser.password])
            #expect(set.status == 200)
            let allowed = try await post(
                client,
                "device",
                ["client_id": Self.client, "device_name": "TV", "name": " ada", "password": TestBrowser.password]
            )
            #expect(try allowed.status == 200 && allowed.text("account") == "Ada")
            let app = TestApp(client)
            let form = [
                "grant_type": TokenRequest.deviceCode, "device_code": try allowed.text("device_code"), "client_id": Self.client,
            ]
            let tokens = try await app.post("/token", form, proof: app.device.proof(at: test.now))
            #expect(tokens.status == 200 && tokens.tokenType == "DPoP")
            let claims = try SignedJSON(parsing: try #require(tokens.accessToken)).claims(AccessTokenClaims.self)
            #expect(claims.sub == subject)
        }
    }

    /// Neither the browser of a visitor of another site, nor a page of this one, tries passwords here.
    @Test(arguments: ["https://evil.example", "null", TestIssuer.origin]) func browsersAreRefused(origin: String) async throws {
        try await test.issuer.setPassword(subject: test.ada(), to: Secret(TestBrowser.password))
        try await test.browse { client in
            for place in ["device", "recovery", "setup", "password"] {
                let fields = [
                    "client_id": Self.client, "name": "Ada", "password": TestBrowser.password, "new_password": "quite another thing",
                ]
                let answer = try await post(client, place, fields, origin: origin)
                #expect(answer.status == 400)
            }
        }
    }

    @Test func limitsAreThoseOfThePage() async throws {
        try await test.issuer.setPassword(subject: test.ada(), to: Secret(TestBrowser.password))
        try await test.browse { client in
            for _ in 0..<5 {
                let wrong = ["client_id": Self.client, "name": "Ada", "password": "quite another thing"]
                #expect(try await post(client, "device", wrong).status == 401)
            }
            let right = ["client_id": Self.client, "name": "Ada", "password": TestBrowser.password]
            let waiting = try await post(client, "device", right)
            #expect(waiting.status == 429 && waiting.retryAfter.flatMap { Int($0) } ?? 0 > 0)
            #expect(try await post(client, "password", right.merging(["new_password": "quite another thing"]) { $1 }).status == 429)
            // The page counts the same attempts.
            #expect(try await TestBrowser(client).signIn().status == 429)
            #expect(try await post(client, "device", right, address: "198.51.100.1").status == 200)
        }
    }

    @Test func setUpEndsWhatThePersonChooses() async throws {
        let subject = try await test.ada()
        for (choice, kept) in [([:], 0), (["end_logins": "yes"], 0), (["end_logins": "no"], 1)] as [([String: String], Int)] {
            _ = try await TestDevice().join(test, code: try await test.invite())
            try await test.browse { client in
                let token = try await token()
                let shown = try await post(client, "setup", ["token": token])
                #expect(try shown.status == 200 && shown.text("account") == "Ada")
                let (logins, isChoice): (Int, Bool) = (
                    try #require(shown.json).member("logins"), try #require(shown.json).member("is_choice")
                )
                #expect(logins == 1 && isChoice)
                let refused = try await post(client, "password", ["token": token, "new_password": "ada"])
                #expect(refused.status == 400)
                let set = ["token": token, "new_password": TestBrowser.password].merging(choice) { $1 }
                #expect(try await post(client, "password", set).status == 200)
                #expect(try await post(client, "password", set).status == 403)
            }
            let open = try await test.issuer.store.read { try $0.openLogins(of: subject).count }
            #expect(open == kept)
        }
    }

    @Test func recoveryCodesAreMadeWhereThereAreNone() async throws {
        try await test.browse { client in
            let first = try await post(client, "password", ["token": try await token(), "new_password": TestBrowser.password])
            let codes: [String] = try #require(first.json).member("recovery_codes")
            #expect(codes.count == RecoveryCode.count)
            let change = ["name": "Ada", "password": TestBrowser.password, "new_password": "quite another thing"]
            let kept: [String] = try #require(try await post(client, "password", change).json).member("recovery_codes")
            #expect(kept == [])
            #expect(try await post(client, "recovery", ["name": "Ada", "code": RecoveryCode().text.exposed]).status == 401)
            let recovered = try await post(client, "recovery", ["name": "Ada", "code": codes[0]])
            #expect(recovered.status == 200)
            #expect(try await post(client, "recovery", ["name": "Ada", "code": codes[0]]).status == 401)
            let set = ["token": try recovered.text("token"), "new_password": TestBrowser.password]
            #expect(try await post(client, "password", set).status == 200)
            #expect(try await TestBrowser(client).signIn().location == "/auth/account")
        }
    }
}
