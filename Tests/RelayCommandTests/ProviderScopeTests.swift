// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// A provider that refuses `resource`, and wants a scope of its own API, as Microsoft Entra does.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON")
)
struct ProviderScopeTests {
    struct Provider: Decodable { var issuer: String }

    @Test func userNamesTheScopeOfTheAPI() async throws {
        let scope = "api://relay-api/access"
        let script = try PythonScript("strict-issuer.py", ["\(FreePort.take())", "relay-api", scope])
        let issuer = try await script.answer(Provider.self).issuer
        let entry = #"{"issuer":"\#(issuer)","audience":"relay-api","scopesClaim":"scp","needsScopes":false,"autoProvision":true}"#
        let account = try await TestAccount(issuers: #"{"embedded":false,"issuers":[\#(entry)]}"#)
        let desk = try TestDevice()
        func login(_ more: String...) async throws -> CommandOutput {
            let arguments = ["login", account.relay.origin, "--issuer", issuer, "--client-id", "relay", "--device", "--json", "--yes"]
            let process = try RelayProcess(arguments + more + ["--home", desk.home], environment: desk.environment)
            return await process.finish()
        }
        let without = try await login()
        #expect(without.status != 0, "\(without.text)")
        let output = try await login("--scope", scope)
        #expect(output.status == 0, "\(output.text)")
        // Each command refreshes: the tokens count as old at once.
        for _ in 0..<2 {
            let devices = try await desk.relay("devices")
            #expect(devices.status == 0, "\(devices.errorText)")
        }
    }

    @Test func scopesThatNoProviderTakesAreRefused() async throws {
        let desk = try TestDevice()
        for (scope, issuer) in [("a\"b", true), ("\u{e9}", true), ("", true), (" ", true), ("a\\b", true), ("a", false)] {
            let more = issuer ? ["--issuer", "https://login.example"] : []
            let output = try await desk.run(["login", "https://relay.example", "--scope", scope, "--json"] + more)
            #expect(output.status == 2, "\(scope): \(output.text)")
        }
    }
}
