// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import RelayProtocol
import RelayServer
import Testing

@testable import RelayIssuer

@Suite struct IssuerRouteTests {
    let test: TestIssuer
    let device = TestDevice()

    init() throws { self.test = try TestIssuer() }

    func live<Result: Sendable>(
        _ issuer: Issuer? = nil,
        _ body: @escaping @Sendable (any TestClientProtocol) async throws -> Result
    ) async throws -> Result {
        let router = Router()
        try (issuer ?? test.issuer).addRoutes(to: router) { _, _ in ClientNetworks(["client"]) }
        let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)), logger: test.logger)
        return try await application.test(.live, body)
    }

    static var decoder: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }

    struct Answer: Decodable, Sendable {
        var error: String?
        var errorDescription: String?
        var accessToken: String?
        var refreshToken: String?
        var tokenType: String?
        var expiresIn: Int?
        var scope: String?
    }

    func post(
        _ client: any TestClientProtocol,
        _ path: String = "/auth/token",
        body: [UInt8],
        proofs: [String] = [],
        type: String? = "application/x-www-form-urlencoded"
    ) async throws -> (status: Int, answer: Answer, headers: HTTPFields) {
        var headers = HTTPFields()
        if let type { headers[.contentType] = type }
        let name = try #require(HTTPFields.Element.Name("DPoP"))
        for proof in proofs { headers.append(.init(name: name, value: proof)) }
        return try await client.execute(uri: path, method: .post, headers: headers, body: ByteBuffer(bytes: body)) { response in
            let bytes = Array(response.body.readableBytesView)
            let answer = bytes.isEmpty ? Answer() : try Self.decoder.decode(Answer.self, from: Data(bytes))
            return (response.status.code, answer, response.headers)
        }
    }

    func post(
        _ client: any TestClientProtocol,
        _ path: String = "/auth/token",
        form fields: [String: String],
        proof: String? = nil
    ) async throws -> (status: Int, answer: Answer, headers: HTTPFields) {
        try await post(client, path, body: Array(TestDevice.encoded(fields).utf8), proofs: proof.map { [$0] } ?? [])
    }

    func joinFields(_ code: Secret<String>) -> [String: String] {
        ["grant_type": TokenRequest.preAuthorizedCode, "pre-authorized_code": code.exposed, "client_id": device.client]
    }

    func invite() async throws -> Secret<String> { try await test.invite() }

    @Test func endpointJoinsAndTheRelayAcceptsItsToken() async throws {
        let code = try await invite()
        let answer = try await live { client in
            let (status, answer, headers) = try await post(client, form: joinFields(code), proof: device.proof(at: test.now))
            #expect(status == 200)
            #expect(headers[.cacheControl] == "no-store")
            #expect(headers[.contentType] == "application/json")
            return answer
        }
        #expect(answer.tokenType == "DPoP")
        #expect(answer.expiresIn == 900)
        #expect(answer.scope == Scopes.all.description)
        let issuer = try test.issuer
        let trusted = TrustedIssuer(
            key: "embedded",
            urls: Set(issuer.urls),
            audience: .exactly("the-relay"),
            check: .keys { FetchedKeys(try await issuer.publishedKeys()) }
        )
        let verifier = TokenVerifier(issuers: [trusted], now: { [test] in test.now }, logger: test.logger)
        let token = Secret(try #require(answer.accessToken))
        let verified = try await verifier.verify(token, key: device.key.publicKey)
        let user = try #require(try await issuer.users().first)
        #expect(verified.identity == Identity(issuer: "embedded", subject: user.subject))
        #expect(verified.expires.count == test.now.count / 1_000 * 1_000 + 900_000)
        #expect(verified.session != nil)
        await #expect(throws: TokenError.boundToOtherKey) { try await verifier.verify(token, key: P256SigningKey().publicKey) }
        test.pass(900_000 + 60_000)
        await #expect(throws: TokenError.expired) { try await verifier.verify(token, key: device.key.publicKey) }
    }

    @Test func anEndpointRefreshesAndRevokes() async throws {
        let code = try await invite()
        try await live { client in
            let joined = try await post(client, form: joinFields(code), proof: device.proof(at: test.now)).answer
            let token = try #require(joined.refreshToken)
            var fields = ["grant_type": "refresh_token", "refresh_token": token, "client_id": device.client]
            let refreshed = try await post(client, form: fields, proof: device.proof(at: test.now))
            #expect(refreshed.status == 200)
            let successor = try #require(refreshed.answer.refreshToken)
            let revoked = try await post(client, "/auth/revoke", form: ["token": successor, "client_id": device.client])
            #expect(revoked.status == 200)
            fields["refresh_token"] = successor
            let refused = try await post(client, form: fields, proof: device.proof(at: test.now))
            #expect(refused.status == 400)
            #expect(refused.answer.error == "invalid_grant")
            #expect(refused.answer.errorDescription?.isEmpty == false)
        }
        #expect(test.revoked.count == 1)
    }

    @Test func metadataIsAtTheStandardAddresses() async throws {
        struct Found: Decodable {
            var issuer: String
            var tokenEndpoint: String
            var jwksUri: String
            var grantTypesSupported: [String]
        }
        try await live { client in
            for path in [
                "/auth/.well-known/openid-configuration", "/auth/.well-known/oauth-authorization-server",
                "/.well-known/oauth-authorization-server/auth",
            ] {
                try await client.execute(uri: path, method: .get) { response in
                    let found = try Self.decoder.decode(Found.self, from: Data(response.body.readableBytesView))
                    #expect(response.status == .ok)
                    #expect(found.issuer == TestIssuer.url)
                    #expect(found.tokenEndpoint == TestIssuer.url + "/token")
                    #expect(found.jwksUri == TestIssuer.url + "/jwks")
                    #expect(found.grantTypesSupported.contains(TokenRequest.preAuthorizedCode))
                }
            }
            try await client.execute(uri: "/auth/jwks", method: .get) { response in
                let text = String(buffer: response.body)
                let keys = try JSONWebKeySet(json: JSONValue(parsing: Array(text.utf8)))
                let published = try await test.issuer.publishedKeys()
                #expect(keys == published)
                #expect(!text.contains("\"d\""))
            }
        }
    }

    @Test func issuerURLFollowsTheRequestsHostIfItIsAnOrigin() async throws {
        var settings = Issuer.Settings(origins: [], audience: "relay")
        settings.origins = ["https://main.example", "https://other.example:8443"]
        let issuer = try Issuer.open(test.directory, settings: settings, now: { 0 }, logger: test.logger)
        let router = Router()
        issuer.addRoutes(to: router) { _, _ in ClientNetworks(["client"]) }
        try await Application(router: router).test(.router) { client in
            for (host, expected) in [
                ("other.example:8443", "https://other.example:8443/auth"), ("OTHER.example:8443", "https://other.example:8443/auth"),
                ("main.example", "https://main.example/auth"), ("evil.example", "https://main.example/auth"),
                ("other.example", "https://main.example/auth"),
            ] {
                let request = HTTPRequest(
                    method: .get,
                    scheme: "https",
                    authority: host,
                    path: "/auth/.well-known/openid-configuration"
                )
                #expect(issuer.context.url(for: Request(head: request, body: .init(buffer: ByteBuffer()))) == expected)
            }
            try await client.execute(uri: "/auth/.well-known/openid-configuration", method: .get) { #expect($0.status == .ok) }
        }
        try issuer.close()
    }

    @Test func everyRejectionIsAnOAuthError() async throws {
        let code = try await invite()
        let good = joinFields(code)
        func without(_ name: String) -> [String: String] { good.filter { $0.key != name } }
        func with(_ name: String, _ value: String) -> [String: String] { good.merging([name: value]) { $1 } }
        let cases: [([String: String], String)] = [
            ([:], "invalid_request"),
            (without("grant_type"), "invalid_request"),
            (without("pre-authorized_code"), "invalid_request"),
            (without("client_id"), "invalid_request"),
            (with("client_id", ""), "invalid_request"),
            (with("client_id", "app"), "invalid_client"),
            (with("client_id", "com..app"), "invalid_client"),
            (with("client_id", "com.ex ample"), "invalid_client"),
            (with("client_id", "com." + String(repeating: "a", count: 509)), "invalid_client"),
            (with("grant_type", "password"), "unsupported_grant_type"),
            (with("grant_type", "authorization_code"), "invalid_request"),
            (with("grant_type", "client_credentials"), "unsupported_grant_type"),
            (with("scope", "admin"), "invalid_scope"),
            (with("scope", " "), "invalid_scope"),
            (with("pre-authorized_code", "wrong"), "invalid_grant"),
            (["grant_type": "refresh_token", "refresh_token": "wrong", "client_id": device.client], "invalid_grant"),
        ]
        try await live { client in
            for (fields, expected) in cases {
                let (status, answer, _) = try await post(client, form: fields, proof: device.proof(at: test.now))
                #expect(status == 400, "\(fields)")
                #expect(answer.error == expected, "\(fields)")
                #expect(answer.errorDescription?.contains("\"") == false)
            }
            let proof = try device.proof(at: test.now)
            let body = Array(TestDevice.encoded(good).utf8)
            #expect(try await post(client, body: body, proofs: [proof, proof]).answer.error == "invalid_dpop_proof")
            for type in [nil, "application/json", "text/plain", "application/x-www-form-urlencodedx"] {
                #expect(try await post(client, body: body, type: type).answer.error == "invalid_request")
            }
            // None of the invalid requests used up the code.
            let type = "application/x-www-form-urlencoded; charset=utf-8"
            #expect(try await post(client, body: body, proofs: [proof], type: type).status == 200)
        }
    }

    @Test func malformedFormsDoNotUseUpTheCode() async throws {
        let code = try await invite()
        let good = TestDevice.encoded(joinFields(code))
        let bodies: [[UInt8]] = [
            Array("&&&===".utf8), Array("%".utf8), Array("a=%".utf8), Array("a=%0".utf8), Array("a=%zz".utf8), Array("a=%ff".utf8),
            [0xFF, 0xFE], [0], Array((good + "&grant_type=refresh_token").utf8), Array((good + "&client_id=com.example.app").utf8),
            Array((0..<100).map { "a\($0)=b" }.joined(separator: "&").utf8), Array(String(repeating: "&", count: 10_000).utf8),
            Array(#"{"grant_type":"refresh_token"}"#.utf8), Array(repeating: UInt8(ascii: "a"), count: 16 << 10), [],
        ]
        try await live { client in
            for (index, body) in bodies.enumerated() {
                let (status, answer, _) = try await post(client, body: body)
                #expect(status == 400, "body \(index)")
                #expect(answer.error == "invalid_request", "body \(index)")
            }
            let large = try await post(client, body: Array(repeating: UInt8(ascii: "a"), count: 64 << 10))
            #expect(large.status == 413)
            #expect(large.answer.error == "invalid_request")
        }
        let status = try await live { client in try await post(client, body: Array(good.utf8)).status }
        #expect(status == 200)
    }

    @Test func failuresPerMinuteAreLimited() async throws {
        let limited = try test.make(failuresPerMinute: 3)
        let code = try await invite()
        try await live(limited) { client in
            for _ in 0..<3 { #expect(try await post(client, form: [:]).status == 400) }
            let (status, refused, headers) = try await post(client, form: [:])
            #expect(status == 429)
            #expect(refused.error == "temporarily_unavailable")
            #expect(headers[.retryAfter] == "60")
            #expect(try await post(client, "/auth/revoke", form: [:]).status == 429)
            // Valid requests are not limited.
            var answer = try await post(client, form: joinFields(code), proof: device.proof(at: test.now)).answer
            for _ in 0..<5 {
                let fields = [
                    "grant_type": "refresh_token", "refresh_token": try #require(answer.refreshToken), "client_id": device.client,
                ]
                let refreshed = try await post(client, form: fields, proof: device.proof(at: test.now))
                #expect(refreshed.status == 200)
                answer = refreshed.answer
            }
            #expect(try await post(client, form: [:]).status == 429)
            test.pass(60_000)
            #expect(try await post(client, form: [:]).status == 400)
        }
        try limited.close()
    }

    @Test func noCodeTokenOrKeyReachesTheLog() async throws {
        let code = try await invite()
        var secrets = [code.exposed]
        secrets += try await live { client in
            var seen: [String] = []
            let proof = try device.proof(at: test.now)
            let joined = try await post(client, form: joinFields(code), proof: proof).answer
            let first = try #require(joined.refreshToken)
            var fields = ["grant_type": "refresh_token", "refresh_token": first, "client_id": device.client]
            let refreshed = try await post(client, form: fields, proof: device.proof(at: test.now)).answer
            seen += [proof, try #require(joined.accessToken), first, try #require(refreshed.accessToken)]
            seen.append(try #require(refreshed.refreshToken))
            // Failing requests, too.
            _ = try await post(client, form: joinFields(code), proof: TestDevice().proof(at: test.now))
            _ = try await post(client, form: fields, proof: device.proof(at: 0))
            test.pass(100_000)
            _ = try await post(client, form: fields, proof: device.proof(at: test.now))
            fields["refresh_token"] = seen.last
            _ = try await post(client, "/auth/revoke", form: ["token": first, "client_id": "com.example.other"])
            try test.issuer.close()
            let failed = try await post(client, form: fields, proof: device.proof(at: test.now))
            #expect(failed.status == 500)
            #expect(failed.answer.error == "server_error")
            return seen
        }
        let logged = test.logged
        #expect(logged.contains("made an invitation") && logged.contains("revoked a login") && logged.contains("the issuer failed"))
        for secret in secrets {
            #expect(!logged.contains(secret))
            for part in secret.split(separator: ".") where part.utf8.count >= 22 { #expect(!logged.contains(part.suffix(22))) }
        }
        let master = try Data(contentsOf: URL(fileURLWithPath: test.directory + "/issuer.key"))
        #expect(!logged.contains(Base64.url.encode(master)) && !logged.contains(master.base64EncodedString()))
        // The operator sees which account a line is about, and the name stands nowhere else.
        #expect(logged.contains(#"revoked a login: two devices with keys of their own used its invitation [:] ["account": Ada]"#))
        #expect(!logged.replacing(#"["account": Ada]"#, with: "").contains("Ada"))
    }
}
