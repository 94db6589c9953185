// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@Suite(.serialized, .timeLimit(.minutes(10))) struct TrustTests {
    @Test func anInvitedDeviceIsKnown() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let invitation = try await desk.relay("invite")
        #expect(invitation.status == 0)
        #expect(invitation.output.count == 1)
        #expect(invitation.errorText.contains("ten minutes"))
        let phone = try TestDevice()
        #expect(try await phone.relay("join", invitation.text, "--name", "Phone").status == 0)
        let newcomer = try await account.device(named: "Newcomer")
        _ = newcomer
        let endpoints = try await desk.relay("devices", "--all", "--json").json["endpoints"] as? [[String: Any]] ?? []
        let new = endpoints.filter { $0["new"] as? Bool == true }.compactMap { $0["name"] as? String }
        #expect(endpoints.count == 3)
        #expect(new == ["Newcomer"])
    }

    @Test func deviceInvitedBesideAHostIsKnownToTheHost() async throws {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        let host = try await tv.host("--scheme", "x-film")
        let link = try await tv.relay("invite").text
        let phone = try TestDevice()
        #expect(try await phone.relay("join", link, "--name", "Phone").status == 0)
        #expect(try await phone.relay("launch", "TV", "x-film:1").status == 0)
        let launch = try JSON.object(try await host.line())
        #expect((launch["from"] as? [String: Any])?["new"] as? Bool == false)
    }

    @Test func unverifiedDeviceIsMarked() async throws {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        // The phone joined by a link of the relay, so no device could vouch for the TV.
        let phone = try await account.device(named: "Phone")
        let listed = try await phone.relay("devices", "--all", "--json").json["endpoints"] as? [[String: Any]] ?? []
        let entry = try #require(listed.first { $0["name"] as? String == "TV" })
        #expect(entry["new"] as? Bool == false)
        #expect(entry["unverified"] as? Bool == true)
        #expect(try await phone.relay("devices", "--all").text.contains("TV (unverified)"))
        #expect(try await tv.relay("devices", "--all").text.contains("Phone (new)"))
        // The tablet joined by the link of another device.
        let tablet = try TestDevice()
        #expect(try await tablet.relay("join", try await tv.relay("invite").text, "--name", "Tablet").status == 0)
        for device in [tv, tablet] {
            let known = try await device.relay("devices", "--all", "--json").json["endpoints"] as? [[String: Any]] ?? []
            let marked = known.filter { $0["unverified"] as? Bool == true || $0["new"] as? Bool == true }
            #expect(marked.compactMap { $0["name"] as? String } == ["Phone"])
        }
        // A comparison of the ids verifies the device.
        #expect(try await phone.relay("approve", try #require(entry["id"] as? String)).status == 0)
        #expect(try await phone.relay("devices", "--all").text.contains("TV (unverified)") == false)
    }

    @Test func newDeviceNeedsApproval() async throws {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        // A device knows the devices that were listed when it joined; devices that join later are new to it.
        let phone = try await account.device(named: "Phone")
        let host = try await tv.host("--scheme", "x-film")
        #expect(try await phone.relay("launch", "TV", "x-film:1").status == 6)
        let endpoint = try #require(try await phone.relay("whoami", "--json").json["endpoint"] as? String)
        let approved = try await tv.relay("approve", String(endpoint.prefix(16)), "--json")
        #expect(approved.status == 0)
        let endpoints = try approved.json["approved"] as? [[String: Any]] ?? []
        #expect(endpoints.compactMap { $0["id"] as? String } == [endpoint])
        // The host in another process may learn of the approval a little later.
        while try await phone.relay("launch", "TV", "x-film:2").status != 0 {}
        #expect(try JSON.object(try await host.line())["uri"] as? String == "x-film:2")
        let again = try await tv.relay("approve", endpoint)
        #expect(again.status == 0)
        #expect(again.output.isEmpty)
        let other = String(repeating: "a", count: 16)
        #expect(try await tv.relay("approve", other).status == 4)
        // A revocation is permanent.
        #expect(try await tv.relay("revoke", other).status == 4)
        let own = try #require(try await tv.relay("whoami", "--json").json["endpoint"] as? String)
        #expect(try await tv.relay("revoke", own).status == 2)
        #expect(try await tv.relay("revoke", String(endpoint.prefix(16))).status == 0)
        #expect(try await phone.relay("devices").status == 3)
    }

    #if os(Linux)
    @Test(arguments: [("y\n", true), ("n\n", false), ("\n", false)])
    func personConfirmsApprovalAndRevocationAtATerminal(answer: String, isDone: Bool) async throws {
        let account = try await TestAccount()
        let (tv, phone) = (try await account.device(named: "TV"), try await account.device(named: "Phone"))
        let id = try #require(try await phone.relay("whoami", "--json").json["endpoint"] as? String)
        let words = try #require(try await phone.relay("whoami", "--json").json["words"] as? String)
        let groups = id.enumerated().map { $0 > 0 && $0 % 4 == 0 ? " \($1)" : "\($1)" }.joined()
        for command in ["approve", "revoke"] {
            let process = try tv.startAtTerminal(command, "phone")
            _ = try await process.line { $0.contains(#"name      "Phone""#) }
            _ = try await process.line { $0.contains("endpoint  \(groups)") }
            _ = try await process.line { $0.contains("words     \(words)") }
            _ = try await process.line { $0.contains("joined ") && $0.contains(" ago from 127.0.0.1") }
            _ = try await process.line { $0.contains("[y/N]") }
            try process.write(answer)
            let output = await process.finish()
            #expect(output.status == (isDone ? 0 : 1), "\(output.text)")
            #expect(output.text.contains("nothing was \(command)d") == !isDone)
        }
        #expect(try await phone.relay("devices").status == (isDone ? 3 : 0))
    }
    #endif
}
