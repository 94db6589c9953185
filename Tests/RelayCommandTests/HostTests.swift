// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// An app of `relay host` is published as long as its process runs.
@Suite(.serialized, .timeLimit(.minutes(10))) struct HostTests {
    private func apps(_ device: TestDevice) async throws -> [String] {
        let devices = try await device.relay("devices", "--json").json["devices"] as? [[String: Any]] ?? []
        return devices.flatMap { $0["apps"] as? [[String: Any]] ?? [] }.compactMap { $0["id"] as? String }.sorted()
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
    func hostWithdrawsItsAppWhenItEnds(signal: Int32) async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host("--app", "com.example.player")
        #expect(try await apps(desk) == ["com.example.player"])
        host.send(signal)
        #expect(await host.finish().status == 0)
        #expect(try await apps(desk) == [])
        #expect(!FileManager.default.fileExists(atPath: tv.home + "/hosted-apps"))
    }

    /// As `nohup` starts it.
    @Test func hostThatIgnoresHangUpContinues() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let relay = Project.products.appending(path: "relay").path
        let host = try RelayProcess(
            ["-c", "trap '' HUP; exec '\(relay)' host --json --app com.example.player --home '\(tv.home)'"],
            executable: URL(filePath: "/bin/sh"),
            environment: tv.environment
        )
        _ = try await host.line { $0.contains(#""event":"hosting""#) }
        host.send(SIGHUP)
        #expect(try await desk.relay("launch", "TV", "https://films.example/1").status == 0)
        #expect(try await apps(desk) == ["com.example.player"])
        host.send(SIGTERM)
        #expect(await host.finish().status == 0)
    }

    @Test func appOfAKilledHostIsWithdrawnByTheNextProcess() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host("--app", "com.example.player")
        host.send(SIGKILL)
        _ = await host.finish()
        #expect(try await apps(desk) == ["com.example.player"])
        // A command that does not host.
        #expect(try await tv.relay("devices").status == 0)
        #expect(try await apps(desk) == [])
        // The agent, and another host.
        let second = try await tv.host("--app", "com.example.player")
        second.send(SIGKILL)
        _ = await second.finish()
        let agent = try await tv.agent()
        #expect(try await apps(desk) == ["org.device-relay.agent"])
        agent.send(SIGTERM)
        _ = await agent.finish()
        // The app of an agent stays: what is launched waits for it.
        #expect(try await apps(desk) == ["org.device-relay.agent"])
    }

    @Test func appOfARunningHostIsLeftAlone() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host("--app", "com.example.player")
        for _ in 0..<3 { #expect(try await tv.relay("devices").status == 0) }
        #expect(try await apps(desk) == ["com.example.player"])
        _ = host
    }

    @Test func hostThatEndsWithoutTheRelayIsWithdrawnLater() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host("--app", "com.example.player")
        _ = try await account.relay.stop()
        host.send(SIGTERM)
        #expect(await host.finish().status == 0)
        _ = try await account.relay.start()
        #expect(try await apps(desk) == ["com.example.player"])
        #expect(try await tv.relay("devices").status == 0)
        #expect(try await apps(desk) == [])
    }
}
