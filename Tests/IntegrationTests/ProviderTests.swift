// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Devices sign in at identity providers that others wrote, and at the issuer of another relay.
@Suite(.timeLimit(.minutes(10)), .enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON"))
final class ProviderTests {
    /// What the script of a provider prints. It lets the user Anna in.
    private struct Provider: Decodable {
        var issuer: String
        var client: String
        var secret: String
    }

    private let directory = FileManager.default.temporaryDirectory.appending(path: "provider-\(UUID().uuidString)")

    init() throws { try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false) }

    deinit { try? FileManager.default.removeItem(at: directory) }

    /// A relay that trusts one issuer, and has none of its own.
    /// - Parameter members: Of the issuer's object in the issuers file.
    private func home(trusting members: String, errors: ErrorLog? = nil) async throws -> TestHome {
        let file = directory.appending(path: "issuers.json")
        try Data(#"{"embedded":false,"issuers":[{\#(members),"autoProvision":true}]}"#.utf8).write(to: file)
        return try await TestHome(accounts: [], arguments: ["--issuers-file", file.path], relayErrors: errors?.handle)
    }

    /// Members that let the relay ask the issuer about tokens.
    private func introspection(client: String, secret: String) throws -> String {
        let path = directory.appending(path: "secret").path
        try #require(FileManager.default.createFile(atPath: path, contents: Data(secret.utf8), attributes: [.posixPermissions: 0o600]))
        return #""mode":"introspection","clientID":"\#(client)","clientSecretFile":"\#(path)""#
    }

    /// Opens a page as Anna does: she signs in and lets the app in.
    private static func visit(_ page: URL, _ script: PythonScript) async throws {
        let location = try await script.ask("page \(page.absoluteString)")
        #expect(try await SignInBrowser.request("GET", location).status == 200)
    }

    /// JSON Web Tokens of the device grant, which are bound to the keys of the devices.
    @Test(.enabled(if: PythonScript.has("glewlwyd"), "needs Debian's package glewlwyd")) func devicesSignInAtGlewlwyd() async throws {
        let script = try PythonScript("glewlwyd.py", [directory.path, "\(FreePort.take())"])
        let provider = try await script.answer(Provider.self)
        let home = try await home(trusting: #""issuer":"\#(provider.issuer)","audience":{"scope":"relay.device.register"}"#)
        let issuer = try url(provider.issuer)
        let tokens = (0..<2).map { _ in
            DeviceGrantAccessTokenProvider(clientID: "relay", issuer: issuer) { prompt in
                await #expect(throws: Never.self) { try await script.ask("device \(prompt.userCode)") }
            }
        }
        try await home.devicesWork(with: tokens)
        for device in ["Phone", "PC"] {
            let accounts = home.directory.appending(path: "\(device)/storage/accounts")
            let account = try #require(try FileManager.default.contentsOfDirectory(atPath: accounts.path).first)
            let stored = try #require(try FileTokenStorage(directory: accounts.appending(path: account).path).read())
            let claims = try SignedJSON(parsing: stored.accessToken.exposed).claims(JSONValue.self)
            #expect(stored.issuer == provider.issuer && claims["cnf"]?["jkt"] != nil)
        }
        #expect(try await home.relayd.stop() == 0)
    }

    /// Opaque tokens of the code grant with PKCE. The relay asks the provider about them.
    @Test func devicesSignInAtDjango() async throws {
        let script = try PythonScript("django-oauth.py", [directory.path])
        let provider = try await script.answer(Provider.self)
        let asking = try introspection(client: provider.client, secret: provider.secret)
        let errors = try ErrorLog()
        let home = try await home(
            trusting: #""issuer":"\#(provider.issuer)","audience":{"scope":"relay.device.register"},"accountClaim":"username",\#(asking)"#,
            errors: errors
        )
        let issuer = try url(provider.issuer)
        let tokens = (0..<2).map { _ in BrowserAccessTokenProvider(clientID: "relay", issuer: issuer) { try await Self.visit($0, script) } }
        try await home.devicesWork(with: tokens)
        #expect(!errors.text.contains(Self.refusal))
        #expect(try await home.relayd.stop() == 0)
    }

    private static let refusal = "refuses this relay's clientID or secret"

    /// The relay says at its start that the provider does not accept it as a client.
    @Test func wrongSecretOfTheRelayAtDjangoIsReported() async throws {
        let script = try PythonScript("django-oauth.py", [directory.path])
        let provider = try await script.answer(Provider.self)
        let asking = try introspection(client: provider.client, secret: "another secret")
        let errors = try ErrorLog()
        let home = try await home(
            trusting: #""issuer":"\#(provider.issuer)","audience":{"scope":"relay.device.register"},"accountClaim":"username",\#(asking)"#,
            errors: errors
        )
        try await errors.contains(Self.refusal)
        #expect(errors.text.contains("accountClaim is username") && !errors.text.contains("another secret"))
        #expect(try await home.relayd.stop() == 0)
    }

    @Test func anotherRelaysIssuerIsAskedAboutTokens() async throws {
        let issuing = try await TestHome()
        let secret = try await issuing.relayd.run("resource-server", "add", "other-relay")
        #expect(try await issuing.relayd.run("resource-server", "list") == "other-relay")
        let relay = try JoinLink(parsing: try await issuing.relayd.run("invite", "Anna"), plainHTTP: .allowed).relay
        let asking = try introspection(client: "other-relay", secret: secret)
        let home = try await home(trusting: #""issuer":"\#(issuing.relayd.origin)/auth","audience":"\#(relay)",\#(asking)"#)
        let token = try await issuing.bearerToken()
        try await home.devicesWork(with: [token, token])
        _ = try await issuing.relayd.run("resource-server", "remove", "other-relay")
        #expect(try await issuing.relayd.run("resource-server", "list").isEmpty)
        await #expect(throws: RelaydProcess.Failed.self) { try await issuing.relayd.run("resource-server", "remove", "other-relay") }
        for one in [home, issuing] { #expect(try await one.relayd.stop() == 0) }
    }
}
