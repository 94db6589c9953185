// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// What works without the relay, or without a disk that can be written, and what is said about it.
@Suite(.serialized, .timeLimit(.minutes(10))) struct OfflineTests {
    private func failure(_ output: CommandOutput) throws -> (code: String, message: String) {
        let error = try #require(try output.json["error"] as? [String: Any])
        return (try #require(error["code"] as? String), try #require(error["message"] as? String))
    }

    @Test func revocationWithoutTheRelayIsKeptAndSentLater() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let facts = try await tv.relay("whoami", "--json").json
        let (device, endpoint) = (try #require(facts["device"] as? String), try #require(facts["endpoint"] as? String))
        #expect(try await desk.relay("approve", device).status == 0)
        _ = try await account.relay.stop()
        #expect(try await desk.relay("revoke", String(repeating: "a", count: 16)).status == 4)
        let revoked = try await desk.relay("revoke", device)
        #expect(revoked.status == 0, "\(revoked.errorText)")
        #expect(revoked.text.hasPrefix("revoked TV"))
        #expect(revoked.errorText.contains("the next `relay` command that connects sends it"))
        let again = try await desk.relay("revoke", endpoint, "--json")
        #expect(again.status == 4, "\(again.text)")
        _ = try await account.relay.start()
        #expect(try await desk.relay("devices", "--all").status == 0)
        let ended = try await tv.relay("devices", "--json")
        #expect(ended.status == 3)
        #expect(try failure(ended).code == "endpointRevoked")
    }

    @Test func revocationWithoutTheRelayNamesItselfAndWhatIsUnverified() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let own = try await tv.relay("whoami", "--json").json
        let other = try #require(try await desk.relay("whoami", "--json").json["endpoint"] as? String)
        // It joined by a link of the relay, so nobody has compared the other device.
        #expect(try await tv.relay("devices", "--all").status == 0)
        _ = try await account.relay.stop()
        for key in ["device", "endpoint"] {
            let id = try #require(own[key] as? String)
            let refused = try await tv.relay("revoke", id, "--json")
            #expect(refused.status == 2)
            #expect(try failure(refused).code == "isLocal", "\(refused.text)")
        }
        let revoked = try await tv.relay("revoke", other, "--json")
        let facts = try #require((try revoked.json["revoked"] as? [[String: Any]])?.first)
        #expect(facts["id"] as? String == other && facts["unverified"] as? Bool == true && facts["new"] as? Bool == false)
    }

    @Test func revokedDeviceThatLeavesIsToldSo() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let endpoint = try #require(try await tv.relay("whoami", "--json").json["endpoint"] as? String)
        #expect(try await desk.relay("revoke", endpoint).status == 0)
        let left = try await tv.relay("leave", "--json")
        #expect(left.status == 0)
        #expect(try left.json["revoked"] as? Bool == true)
        #expect(!left.errorText.contains("relay revoke"), "\(left.errorText)")
    }

    /// The advice of each check fits the others.
    @Test func doctorOfARevokedOrDisabledDeviceDoesNotContradictItself() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        _ = try await account.relay.run("account", "disable", "Anna")
        let disabled = try await desk.relay("doctor")
        #expect(disabled.status == 3, "\(disabled.text)")
        #expect(disabled.text.contains("operator"), "\(disabled.text)")
        #expect(!disabled.text.contains("relay join") && !disabled.text.contains("join again"), "\(disabled.text)")
        _ = try await account.relay.run("account", "enable", "Anna")
        let endpoint = try #require(try await tv.relay("whoami", "--json").json["endpoint"] as? String)
        #expect(try await desk.relay("revoke", endpoint).status == 0)
        let revoked = try await tv.relay("doctor")
        #expect(revoked.status == 3)
        #expect(revoked.text.contains("relay leave") && !revoked.text.contains("relay invite"), "\(revoked.text)")
    }

    @Test func unreachableRelayIsNamedWithTheNextStep() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        _ = try await account.relay.stop()
        let output = try await desk.relay("devices", "--json")
        #expect(output.status == 5)
        let failure = try failure(output)
        #expect(failure.code == "relayUnreachable")
        #expect(failure.message.contains(account.relay.origin) && failure.message.hasSuffix("run: relay doctor"), "\(failure.message)")
    }

    @Test(arguments: ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", nil])
    func doctorSaysThatNoProxyIsUsed(variable: String?) async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        _ = try await account.relay.stop()
        if let variable { desk.variables[variable] = "http://proxy.example:3128" }
        let output = try await desk.relay("doctor")
        #expect(output.status == 5)
        #expect(output.text.contains("uses no HTTP proxy") == (variable != nil), "\(output.text)")
        if let variable { #expect(output.text.contains("-> \(variable) is set")) }
    }

    #if os(Linux)
    /// The kernel has no route in a network without interfaces, so nothing is gained by waiting.
    @Test func commandEndsAtOnceWithoutARoute() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let file = desk.home + "/relay.json"
        let text = String(decoding: try #require(FileManager.default.contents(atPath: file)), as: UTF8.self)
        try Data(text.replacing(account.relay.origin, with: "https://192.0.2.1").utf8).write(to: URL(filePath: file))
        let relay = Project.products.appending(path: "relay").path
        let process = try RelayProcess(
            ["--user", "--map-root-user", "--net", relay, "devices", "--json", "--home", desk.home],
            executable: URL(filePath: "/usr/bin/unshare"),
            environment: desk.environment
        )
        let output = await process.finish()
        // Some systems allow no user namespaces.
        guard !output.errorText.contains("unshare") else { return }
        #expect(output.status == 5)
        #expect(try failure(output).message.contains("no network, or no route"), "\(output.text)")
    }

    @Test(.enabled(if: SmallDisk.isPossible))
    func readingCommandsNeedNoWritingAndOthersNameTheCause() async throws {
        let account = try await TestAccount()
        let disk = try SmallDisk(megabytes: 8)
        let tv = try await account.device(named: "TV")
        let host = try await tv.agent()
        let desk = try await account.device(named: "Desk", in: disk.directory)
        let launched = try await desk.relay("launch", "TV", "https://films.example/1", "--no-wait", "--json")
        let command = try #require(try launched.json["command"] as? String)
        let before = try await desk.relay("whoami", "--json").json
        func check(_ cause: String) async throws {
            let facts = try await desk.relay("whoami", "--json")
            #expect(facts.status == 0, "\(facts.text)")
            #expect(try facts.json["endpoint"] as? String == before["endpoint"] as? String)
            #expect(try facts.json["accountName"] as? String == "Anna")
            #expect(try await desk.relay("sessions").status == 0)
            let listed = try await desk.relay("profiles", "--json")
            #expect(listed.status == 0)
            let profile = try #require((try listed.json["profiles"] as? [[String: Any]])?.first)
            #expect(profile["accountName"] as? String == "Anna" && profile["endpoint"] is String)
            let renamed = try await desk.relay("rename", "Kitchen", "--json")
            #expect(renamed.status == 1)
            #expect(try failure(renamed).message.contains(cause), "\(renamed.text)")
            let devices = try await desk.relay("devices", "--json")
            #expect(devices.status == 0, "\(devices.text)")
            #expect(try (devices.json["devices"] as? [[String: Any]])?.map { $0["name"] as? String } == ["TV"])
            if try devices.json["current"] as? Bool == false {
                #expect(devices.errorText.contains("this is the last known state"), "\(devices.errorText)")
                #expect(devices.errorText.contains(cause), "\(devices.errorText)")
            }
            let commands = try await desk.relay("commands", "--json")
            #expect(commands.status == 0, "\(commands.text)")
            let entry = try #require((try commands.json["commands"] as? [[String: Any]])?.first)
            #expect(entry["id"] as? String == command && entry["deviceName"] as? String == "TV", "\(commands.text)")
        }
        try disk.setReadOnly(true)
        try await check("Read-only file system")
        let stored = try await desk.relay("devices", "--all", "--json").json
        #expect(stored["current"] as? Bool == false)
        let apps = try #require((stored["endpoints"] as? [[String: Any]])?.first?["apps"] as? [String])
        #expect(!apps.isEmpty)
        try disk.setReadOnly(false)
        try disk.fill()
        try await check("No space left on device")
        host.send(SIGTERM)
        _ = await host.finish()
    }

    @Test func closedOutputIsAnError() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let relay = Project.products.appending(path: "relay").path
        let shell = try RelayProcess(
            ["-c", "'\(relay)' whoami --home '\(desk.home)' >&-"],
            executable: URL(filePath: "/bin/sh"),
            environment: desk.environment
        )
        let output = await shell.finish()
        #expect(output.status == 1)
        #expect(output.errorText == "relay: cannot write the output: standard output is closed; what the command has done stays done")
    }
    #endif
}
