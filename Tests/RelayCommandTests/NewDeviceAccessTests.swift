// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// The agent's setting `newDevices`.
@Suite(.serialized, .timeLimit(.minutes(10))) struct NewDeviceAccessTests {
    /// Which of a web page, another scheme and a service a new device gets.
    private func results(_ setting: String) async throws -> [Bool] {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        let new = try await account.device(named: "New")
        let agent = try await tv.agent("\(setting)\nopen:\n  schemes: [https, http, film]\n  command: [\"true\"]")
        var results: [Bool] = []
        for uri in ["https://films.example/", "film:1", "http://router.local/"] {
            results.append(try await new.relay("launch", "TV", uri).status == 0)
        }
        results.append(try await new.relay("ping", "TV", "--count", "1").status == 0)
        agent.send(SIGTERM)
        _ = await agent.finish()
        return results
    }

    @Test(arguments: [
        ("", [true, false, false, false]), ("newDevices: webPages", [true, false, false, false]),
        ("newDevices: nothing", [false, false, false, false]), ("newDevices: everything", [true, true, true, true]),
    ])
    func settingDecides(setting: String, expected: [Bool]) async throws { #expect(try await results(setting) == expected) }

    @Test func wrongSettingIsAnError() async throws {
        let tv = try await TestAccount().device(named: "TV")
        try tv.setAgent("newDevices: all")
        let output = try await tv.relay("agent")
        #expect(output.status == 2 && output.errorText.contains("nothing, webPages, everything"), "\(output.errorText)")
    }
}
