// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Clients that others wrote sign in at the embedded issuer of a running relay.
@Suite(.timeLimit(.minutes(10)), .enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON"))
struct ClientTests {
    @Test func authlibUsesEveryGrant() async throws {
        let home = try await TestHome(accounts: [])
        let link = try await home.relayd.add(account: "anna")
        let script = try PythonScript("oauth-clients.py", [home.relayd.origin + "/auth", link])
        #expect(try await script.end() == 0)
        #expect(try await home.relayd.stop() == 0)
    }

    @Test(.enabled(if: PythonScript.has("oidc-gen"), "needs Debian's package oidc-agent-cli"))
    func devicesUseTokensOfOIDCAgent() async throws {
        struct Tokens: Decodable {
            var code: String
            var device: String
        }
        let home = try await TestHome(accounts: [])
        let link = try await home.relayd.add(account: "anna")
        let port = try FreePort.take()
        let script = try PythonScript("oidc-agent.py", [home.relayd.origin + "/auth", link, home.directory.path, "\(port)"])
        let tokens = try await script.answer(Tokens.self)
        #expect(try await script.end() == 0)
        try await home.devicesWork(with: [tokens.code, tokens.device])
        #expect(try await home.relayd.stop() == 0)
    }

    /// `DEVICE_RELAY_SCREENSHOTS` names a folder that keeps the screenshots.
    @Test(.enabled(if: PythonScript.has("chromedriver"), "needs Debian's packages chromium and chromium-driver"))
    func peopleUseThePagesWithChromium() async throws {
        struct Tokens: Decodable {
            var code: String
            var device: String
        }
        let home = try await TestHome(accounts: [])
        let links = [try await home.relayd.add(account: "desktop"), try await home.relayd.add(account: "phone")]
        let folder = ProcessInfo.processInfo.environment["DEVICE_RELAY_SCREENSHOTS"] ?? home.directory.path
        let script = try PythonScript("chromium.py", ["http://localhost:\(home.relayd.port)/auth", folder] + links)
        let tokens = try await script.answer(Tokens.self)
        #expect(try await script.end() == 0)
        try await home.devicesWork(with: [tokens.code, tokens.device])
        #expect(try await home.relayd.stop() == 0)
    }
}
