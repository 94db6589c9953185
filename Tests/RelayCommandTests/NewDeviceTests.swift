// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// The agent notifies the person of new devices.
@Suite(.serialized, .timeLimit(.minutes(10))) struct NewDeviceTests {
    private func newDevices(of device: TestDevice) async throws -> [String] {
        let listed = try await device.relay("devices", "--all", "--json").json["endpoints"] as? [[String: Any]] ?? []
        return listed.filter { $0["new"] as? Bool == true }.compactMap { $0["name"] as? String }
    }

    @Test func buttonApprovesTheDevice() async throws {
        let account = try await TestAccount()
        let desktop = try FakeDesktop(on: try await account.device(named: "TV"))
        let agent = try await desktop.agent()
        let phone = try await account.device(named: "Phone")
        let notification = try await desktop.notification(0)
        let words = try #require(try await phone.relay("whoami", "--json").json["words"] as? String)
        #expect(notification.contains("words: \(words)"))
        #expect(notification.contains { $0.contains("from 127.0.0.1, as the relay says") })
        #expect(try await newDevices(of: desktop.device) == ["Phone"])
        try desktop.answer("approve")
        _ = try await agent.errorLine { $0.hasPrefix("approved \"Phone\"") }
        #expect(try await newDevices(of: desktop.device) == [])
    }

    @Test func buttonRefusesTheDevice() async throws {
        let account = try await TestAccount()
        let desktop = try FakeDesktop(on: try await account.device(named: "TV"))
        let agent = try await desktop.agent()
        let phone = try await account.device(named: "Phone")
        _ = try await desktop.notification(0)
        try desktop.answer("refuse")
        _ = try await agent.errorLine { $0.hasPrefix("revoked \"Phone\"") }
        #expect(try await phone.relay("devices").status == 3)
    }

    @Test func closedNotificationDecidesNothingAndDoesNotComeBack() async throws {
        let account = try await TestAccount()
        let desktop = try FakeDesktop(on: try await account.device(named: "TV"))
        let agent = try await desktop.agent()
        _ = try await account.device(named: "Phone")
        _ = try await desktop.notification(0)
        try desktop.answer("")
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
        // Another process of the agent notifies the person of other devices only.
        let second = try await desktop.agent()
        _ = try await account.device(named: "Watch")
        #expect(try await desktop.notification(1).contains { $0.contains("Watch") })
        #expect(try await newDevices(of: desktop.device).sorted() == ["Phone", "Watch"])
        second.send(SIGTERM)
        _ = await second.finish()
        #expect(desktop.notifications.count == 2)
    }

    @Test func notificationIsClosedWhenTheDeviceIsApprovedElsewhere() async throws {
        let account = try await TestAccount()
        let desktop = try FakeDesktop(on: try await account.device(named: "TV"))
        let agent = try await desktop.agent()
        let phone = try await account.device(named: "Phone")
        _ = try await desktop.notification(0)
        let endpoint = try #require(try await phone.relay("whoami", "--json").json["endpoint"] as? String)
        #expect(try await desktop.device.relay("approve", endpoint).status == 0)
        try await desktop.isClosed()
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
    }

    @Test(arguments: ["", "exit 1"]) func withoutADesktopTheAgentWritesANote(script: String) async throws {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        if !script.isEmpty { _ = try FakeDesktop(on: tv, script: script) }
        let agent = try await tv.agent()
        let phone = try await account.device(named: "Phone")
        let endpoint = try #require(try await phone.relay("whoami", "--json").json["endpoint"] as? String)
        _ = try await agent.errorLine { $0.contains("new device: \"Phone\"") && $0.contains("relay approve \(endpoint)") }
        #expect(try await newDevices(of: tv) == ["Phone"])
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
    }

    #if os(Linux)
    @Test(arguments: [("approve\n", true), ("y\n", false), ("\n", false)]) func questionAtTheTerminal(answer: String, isApproved: Bool)
        async throws
    {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        try tv.setAgent("")
        let agent = try tv.startAtTerminal("agent")
        _ = try await agent.line { $0.contains("ready") }
        let phone = try await account.device(named: "Phone")
        let words = try #require(try await phone.relay("whoami", "--json").json["words"] as? String)
        _ = try await agent.line { $0.contains("  words: \(words)") }
        _ = try await agent.line { $0.contains("Approve it? Type approve") }
        try agent.write(answer)
        if isApproved { _ = try await agent.line { $0.contains("approved \"Phone\"") } }
        #expect(try await newDevices(of: tv) == (isApproved ? [] : ["Phone"]))
    }
    #endif
}
