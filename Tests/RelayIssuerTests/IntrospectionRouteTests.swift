// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Testing

@testable import RelayIssuer

/// Introspection, and the metadata that names all addresses.
@Suite struct IntrospectionRouteTests {
    let test: TestIssuer
    let device = TestDevice()

    init() throws { self.test = try TestIssuer() }

    func basic(_ name: String, _ secret: Secret<String>) -> String {
        "Basic " + Data("\(name):\(secret.exposed)".utf8).base64EncodedString()
    }

    @Test func resourceServerIntrospectsTokens() async throws {
        let secret = try await test.issuer.addResourceServer("photos")
        let joined = try await device.join(test, code: try await test.invite())
        let subject = try await test.ada()
        try await test.browse { client in
            let app = TestApp(client)
            func ask(_ token: String) async throws -> TestApp.Answer {
                try await app.post("/introspect", ["token": token], authorization: basic("photos", secret))
            }
            let (access, refresh) = (joined.accessToken.exposed, try #require(joined.refreshToken).exposed)
            let answer = try await ask(access)
            #expect(answer.status == 200 && answer.active == true && answer.sub == subject && answer.tokenType == "DPoP")
            #expect(answer.clientID == device.client && answer.scope == Scopes.all.description)
            #expect(try await ask(refresh).active == true)
            for text in ["x", "x.y.z", String(access.dropLast(4)) + "AAAA", String(refresh.dropLast(4)) + "AAAA"] {
                let answer = try await ask(text)
                #expect(answer.status == 200 && answer.active == false && answer.sub == nil, "\(text)")
            }
            let next = try await device.refresh(test, joined.refreshToken)
            #expect(try await ask(refresh).active == false)
            #expect(try await ask(try #require(next.refreshToken).exposed).active == true)
            test.pass(AccessTokenClaims.life)
            #expect(try await ask(access).active == false)
            let last = try await device.refresh(test, next.refreshToken)
            #expect(try await ask(last.accessToken.exposed).active == true)
            try await test.issuer.tokens.revoke(try #require(last.refreshToken).exposed, client: device.client)
            #expect(try await ask(last.accessToken.exposed).active == false)
            #expect(try await ask(try #require(last.refreshToken).exposed).active == false)
        }
    }

    @Test func introspectionNeedsACurrentSecret() async throws {
        let secret = try await test.issuer.addResourceServer("photos")
        let token = try await device.join(test, code: try await test.invite()).accessToken.exposed
        try await test.browse { client in
            let app = TestApp(client)
            for authorization in [
                nil, "", "Basic", "Basic x", "Bearer \(token)", "Basic \(Data("photos".utf8).base64EncodedString())",
                basic("photos", Secret("x")),
                basic("other", secret), basic("", secret), basic("photos", Secret("")),
            ] {
                let answer = try await app.post("/introspect", ["token": token], authorization: authorization)
                #expect(answer.status == 401 && answer.error == "invalid_client" && answer.active == nil, "\(authorization ?? "none")")
            }
            #expect(try await app.post("/introspect", [:], authorization: basic("photos", secret)).error == "invalid_request")
            let renewed = try await test.issuer.addResourceServer("photos")
            #expect(try await app.post("/introspect", ["token": token], authorization: basic("photos", secret)).status == 401)
            #expect(try await app.post("/introspect", ["token": token], authorization: basic("photos", renewed)).status == 200)
            #expect(try await test.issuer.resourceServers() == ["photos"])
            #expect(try await test.issuer.removeResourceServer("photos"))
            #expect(try await !test.issuer.removeResourceServer("photos"))
            #expect(try await app.post("/introspect", ["token": token], authorization: basic("photos", renewed)).status == 401)
        }
        await #expect(throws: IssuerError.resourceServerNameInvalid) { try await test.issuer.addResourceServer("a:b") }
    }

    @Test func metadataNamesEveryEndpoint() async throws {
        let names = [
            "authorization_endpoint": "/authorize", "token_endpoint": "/token", "device_authorization_endpoint": "/device_authorization",
            "registration_endpoint": "/register", "revocation_endpoint": "/revoke", "introspection_endpoint": "/introspect",
            "jwks_uri": "/jwks",
        ]
        try await test.browse { client in
            for path in ["/auth/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/auth"] {
                let text = try await client.execute(uri: path, method: .get) { String(buffer: $0.body) }
                let found = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
                for (name, place) in names {
                    #expect(found[name] as? String == TestIssuer.url + place)
                    // Each of them is there.
                    let uri = "/auth" + place
                    let status = try await client.execute(
                        uri: uri,
                        method: name == "authorization_endpoint" || name == "jwks_uri" ? .get : .post
                    ) {
                        $0.status.code
                    }
                    #expect(status != 404 && status != 405, "\(name)")
                }
                #expect(found["code_challenge_methods_supported"] as? [String] == ["S256"])
                #expect(found["response_types_supported"] as? [String] == ["code"])
                #expect(found["authorization_response_iss_parameter_supported"] as? Bool == true)
                let grants = try #require(found["grant_types_supported"] as? [String])
                #expect(
                    Set(grants) == ["authorization_code", "refresh_token", TokenRequest.deviceCode, TokenRequest.preAuthorizedCode]
                )
            }
        }
    }
}
