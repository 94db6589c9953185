// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(10))) struct RenameTests {
    private func names(_ device: TestDevice) async throws -> [String] {
        let listed = try await device.relay("devices", "--all", "--json").json["endpoints"] as? [[String: Any]] ?? []
        return listed.compactMap { $0["name"] as? String }.sorted()
    }

    @Test func otherDevicesSeeTheNewName() async throws {
        let account = try await TestAccount()
        // The TV joins later, so it knows the desk.
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let agent = try await tv.agent()
        let watch = try desk.start("watch", "--json")
        _ = try await watch.line { $0.contains("enumerationCompleted") }
        let renamed = try await tv.relay("rename", "Living room", "--json")
        #expect(renamed.status == 0, "\(renamed.text)")
        #expect(try renamed.json["published"] as? Bool == true)
        _ = try await watch.line { $0.contains("updated") && $0.contains("Living room") }
        #expect(try await names(desk) == ["Desk", "Living room"])
        #expect(try await tv.relay("whoami", "--json").json["name"] as? String == "Living room")
        // The agent that ran meanwhile, and its successor, keep the name and the device's approvals.
        #expect(try await desk.relay("ping", "Living room", "--count", "1").status == 0)
        _ = try await account.relay.stop()
        _ = try await account.relay.start()
        while try await desk.relay("ping", "Living room", "--count", "1").status != 0 {}
        #expect(try await names(desk) == ["Desk", "Living room"])
        agent.send(SIGTERM)
        _ = await agent.finish()
        let second = try await tv.agent()
        #expect(try await names(desk) == ["Desk", "Living room"])
        second.send(SIGTERM)
        _ = await second.finish()
    }

    @Test func nameIsSentLaterWithoutARelay() async throws {
        let account = try await TestAccount()
        let (tv, desk) = (try await account.device(named: "TV"), try await account.device(named: "Desk"))
        _ = try await account.relay.stop()
        let renamed = try await tv.relay("rename", "Kitchen", "--json")
        #expect(renamed.status == 0, "\(renamed.text)")
        #expect(try renamed.json["published"] as? Bool == false)
        _ = try await account.relay.start()
        #expect(try await tv.relay("devices").status == 0)
        #expect(try await names(desk) == ["Desk", "Kitchen"])
    }

    @Test(arguments: ["", " ", "a\nb", "\u{1B}[2J", "\u{202E}TV", "\u{2800}", String(repeating: "x", count: 65)])
    func invalidNamesAreRejected(name: String) async throws {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        #expect(try await tv.relay("rename", name).status == 2)
        #expect(try await names(tv) == ["TV"])
    }

    @Test func nextAccountBeginsWithItsOwnName() async throws {
        let account = try await TestAccount()
        let (tv, desk) = (try await account.device(named: "TV"), try await account.device(named: "Desk"))
        #expect(try await tv.relay("rename", "Kitchen").status == 0)
        #expect(try await tv.relay("leave").status == 0)
        #expect(try await tv.relay("join", try await account.link(), "--name", "Hall").status == 0)
        #expect(try await names(desk) == ["Desk", "Hall"])
    }
}
