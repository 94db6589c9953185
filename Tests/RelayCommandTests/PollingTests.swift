// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// A device that does not stay connected, with real processes.
@Suite(.serialized, .timeLimit(.minutes(10))) struct PollingTests {
    @Test func sleepingAgentGetsItsLaunchAlthoughTheRelayWasKilled() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let opened = tv.directory.path + "/opened"
        let command = try Settings.shell("printf '%s\\n' \"$2\" >> \"$1\"", opened, "{uri}")
        try tv.setAgent("open:\n  command: \(command)\n")
        let agent = try tv.start("agent", "--poll", "2", "--json")
        _ = try await agent.line { $0.contains(#""event":"ready""#) }

        let sent = try await desk.relay("launch", "TV", "https://films.example/1", "--no-wait", "--json")
        #expect(sent.status == 0, "\(sent.errorText)")
        try await account.relay.kill()
        _ = try await account.relay.start()
        let waited = try await desk.relay("launch", "TV", "https://films.example/2", "--wait", "120", "--json")
        #expect(waited.status == 0, "\(waited.errorText)")
        #expect(lines(of: opened) == ["https://films.example/1", "https://films.example/2"])

        var isAsleep = false
        while !isAsleep {
            let listed = try await desk.relay("devices", "--json")
            let device = try (JSON.object(listed.text)["devices"] as? [[String: Any]])?.first { $0["name"] as? String == "TV" }
            isAsleep =
                device?["reason"] as? String == "suspended" && device?["expectedWithin"] as? Double == 2
                && device?["wakeable"] as? Bool == false
        }
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
        #expect(try await tv.relay("agent", "--poll", "0").status == 2)
    }

    /// An agent that polls once an hour connects for a request, and is asleep before and after.
    @Test func sleepingAgentConnectsForARequest() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host("--app", "com.example.player", "--scheme", "https")
        let agent = try desk.start("agent", "--poll", "3600", "--json")
        _ = try await agent.line { $0.contains(#""event":"ready""#) }
        let launch = try await AgentAPI.post(
            desk,
            "/v1/launches",
            #"{"device":"TV","uri":"https://films.example/1"}"#,
            "Prefer: wait=30"
        )
        #expect(launch.status == 200, "\(launch.text)")
        // It also sends what nobody waits for.
        #expect(try await desk.relay("launch", "TV", "https://films.example/2", "--no-wait").status == 0)
        for number in 1...2 {
            #expect(try JSON.object(try await host.line())["uri"] as? String == "https://films.example/\(number)")
        }
        // Who follows the devices keeps it connected.
        let watch = try desk.start("watch", "--json")
        _ = try await watch.line { $0.contains("enumerationCompleted") }
        host.send(SIGTERM)
        _ = await host.finish()
        #expect(try await watch.line { $0.contains(#""event":"removed""#) }.contains("TV"))
        watch.send(SIGINT)
        #expect(await watch.finish().status == 0)
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
    }
}
