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
