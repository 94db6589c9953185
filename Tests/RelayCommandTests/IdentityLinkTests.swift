// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Two issuers, both the real ones of relays, and a person who links the second.
@Suite(.serialized, .timeLimit(.minutes(10))) struct IdentityLinkTests {
    /// Starts a command that signs a user in by code, and enters the code.
    private func signIn(_ device: TestDevice, _ browser: SignInBrowser, _ arguments: [String]) async throws -> CommandOutput {
        let process = try RelayProcess(arguments + ["--device", "--json", "--home", device.home], environment: device.environment)
        let code = try JSON.object(try await process.line())
        let page = try #require((code["url"] as? String).flatMap { URL(string: $0) })
        try await browser.decide(device: page, code: try #require(code["userCode"] as? String))
        return await process.finish()
    }

    /// A provider that compares the whole redirect URI.
    @Test func linkComesBackToTheGivenPort() async throws {
        struct Client: Decodable {
            var id: String

            enum CodingKeys: String, CodingKey { case id = "client_id" }
        }
        let (second, browser) = try await LoginTests.bench()
        let issuer = second.relay.origin + "/auth"
        let audience = try JoinLink(parsing: try await second.link(), plainHTTP: .allowed).relay
        let account = try await TestAccount(issuers: #"{"issuers":[{"issuer":"\#(issuer)","audience":"\#(audience)"}]}"#)
        let desk = try await account.device(named: "Desk")
        let registered = try await SignInBrowser.request(
            "POST",
            issuer + "/register",
            headers: [("Content-Type", "application/json")],
            body: #"{"redirect_uris":["http://127.0.0.1/signed-in"],"client_name":"relay","token_endpoint_auth_method":"none"}"#
        )
        let client = try JSONDecoder().decode(Client.self, from: Data(registered.text.utf8)).id
        let port = try FreePort.take()
        let arguments = ["account", "link", "--issuer", issuer, "--client-id", client, "--redirect-port", "\(port)", "--json"]
        let process = try RelayProcess(arguments + ["--home", desk.home], environment: desk.environment)
        let page = try JSON.object(try await process.line())
        let location = try await browser.decide(app: try #require((page["url"] as? String).flatMap { URL(string: $0) }))
        #expect(location.hasPrefix("http://127.0.0.1:\(port)/signed-in?"))
        #expect(try await SignInBrowser.request("GET", location).status == 200)
        let output = await process.finish()
        #expect(output.status == 0, "\(output.text)")
        #expect(try output.json["event"] as? String == "linked")
    }

    @Test func deviceThatSignsInAtTheSecondIssuerIsInTheSameAccount() async throws {
        let second = try await TestAccount()
        let link = try JoinLink(parsing: try await second.link(), plainHTTP: .allowed)
        let issuer = second.relay.origin + "/auth"
        let account = try await TestAccount(issuers: #"{"issuers":[{"issuer":"\#(issuer)","audience":"\#(link.relay)"}]}"#)
        let browser = SignInBrowser(origin: second.relay.origin)
        try await browser.setUp(try await second.relay.run("account", "set-up", "Anna"))

        let desk = try await account.device(named: "Desk")
        let radio = try TestDevice()
        let login = ["login", account.relay.origin, "--issuer", issuer, "--name", "Radio", "--yes"]
        // The relay has no account for this identity yet.
        let early = try await signIn(radio, browser, login)
        #expect(try (early.json["error"] as? [String: Any])?["code"] as? String == "serviceFailed", "\(early.text)")

        let output = try await signIn(desk, browser, ["account", "link", "--issuer", issuer])
        #expect(output.status == 0, "\(output.text)")
        #expect(try output.json["event"] as? String == "linked" && output.json["issuer"] as? String == issuer)
        #expect(try await signIn(radio, browser, login).status == 0)
        #expect(try await desk.relay("devices", "--all").text.contains("Radio"))
        // The desk's own login is still that of the first issuer.
        #expect(try await desk.relay("sessions", "--json").json["issuer"] as? String == account.relay.origin + "/auth")

        // A newcomer may not, and an issuer that the relay does not name gets no sign-in.
        let refused = try await signIn(radio, browser, ["account", "link", "--issuer", issuer])
        #expect(refused.status == 1)
        #expect(try (refused.json["error"] as? [String: Any])?["code"] as? String == "notEstablished")
        let unknown = try await desk.relay("account", "link", "--issuer", "https://other.example", "--device", "--json")
        #expect(unknown.status != 0)
        #expect(try await desk.relay("account", "link", "--issuer", "nowhere").status == 2)
    }
}
