// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

/// Launches that an unapproved device must not get. It joins by a link of the operator when the other devices are already there.
@Suite(.serialized, .timeLimit(.minutes(10))) struct LaunchAttackTests {
    @Test func newDeviceCannotOpenAPageOfTheLocalNetwork() async throws {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        let evil = try await account.device(named: "Evil")
        let opened = tv.directory.path + "/opened"
        let agent = try await tv.agent("open:\n  command: \(try Settings.shell(#"echo "$2" >> "$1""#, opened, "{uri}"))")
        let id = try #require(try await evil.relay("whoami", "--json").json["endpoint"] as? String)
        for uri in ["http://127.0.0.1:631/admin", "http://0x7f.1/", "http://[::1]/", "http://router/", "http://printer.local/"] {
            let output = try await evil.relay("launch", "TV", uri)
            #expect(output.status == 6, "\(uri): \(output.text)")
            // The reason names the command that approves the device.
            #expect(output.errorText.contains("relay approve \(id)"), "\(output.errorText)")
            #expect(try JSON.object(try await agent.line())["answer"] as? String == "declined")
        }
        #expect(lines(of: opened).isEmpty)
        #expect(try await evil.relay("launch", "TV", "https://films.example/1").status == 0)
        #expect(lines(of: opened) == ["https://films.example/1"])
    }

    #if os(Linux)
    @Test func newDeviceCannotExhaustProgramsOrDescriptors() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let evil = try await account.device(named: "Evil")
        // The program keeps running, like a player or browser, except for the first launch.
        let script = #"case "$2" in */0) exit 0;; esac; echo $$ >> "$1"; exec sleep 600"#
        let started = tv.directory.path + "/started"
        let agent = try await tv.agent("open:\n  command: \(try Settings.shell(script, started, "{uri}"))")
        defer { for pid in lines(of: started).compactMap({ pid_t($0) }) { kill(pid, SIGKILL) } }
        func descriptors() throws -> Int { try FileManager.default.contentsOfDirectory(atPath: "/proc/\(agent.id)/fd").count }
        #expect(try await desk.relay("launch", "TV", "https://films.example/0").status == 0)
        let before = try descriptors()
        var rejections: [String] = []
        for number in 1...16 {
            let output = try await evil.relay("launch", "TV", "https://films.example/\(number)")
            if output.status != 0 {
                #expect(output.status == 6, "\(output.errorText)")
                rejections.append(output.errorText)
            }
        }
        #expect(lines(of: started).count == 4)
        #expect(rejections.count == 12)
        #expect(rejections.contains { $0.contains("4 programs") })
        #expect(rejections.contains { $0.contains("6 launches a minute") })
        // A known device still has room.
        #expect(try await desk.relay("launch", "TV", "https://films.example/17").status == 0)
        #expect(lines(of: started).count == 5)
        #expect(try descriptors() <= before + 5 * 4)
        for pid in lines(of: started).compactMap({ pid_t($0) }) { kill(pid, SIGKILL) }
        try await wait { try descriptors() <= before }
    }

    @Test func nameCannotImitateTheQuestion() async throws {
        let account = try await TestAccount()
        let name = #"PC" wants https://a.example. Open it? [y/N]"#
        let (desk, tv) = (try await account.device(named: name), try await account.device(named: "TV"))
        try tv.setAgent("open:\n  ask: [mailto]\n  command: [\"true\"]")
        let agent = try tv.startAtTerminal("agent")
        _ = try await agent.line { $0.contains("ready") }
        let launch = try desk.start("launch", "TV", "mailto:anna@films.example")
        let from = try await agent.line { $0.contains("PC") }
        #expect(from.contains(#"from  "PC\" wants https://a.example. Open it? [y/N]", a known device"#), "\(from)")
        #expect(try await agent.line().contains(#"URI   "mailto:anna@films.example""#))
        #expect(try await agent.line().contains("Open it? [y/N]"))
        try agent.write("n\n")
        let output = await launch.finish()
        #expect(output.status == 6 && output.errorText.contains("the person there declined"), "\(output.errorText)")
    }

    @Test func unansweredQuestionTimesOutAndBlocksNothing() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let phone = try await account.device(named: "Phone")
        try tv.setAgent("open:\n  ask: [mailto]\n  command: [\"true\"]")
        let agent = try tv.startAtTerminal("agent")
        _ = try await agent.line { $0.contains("ready") }
        let asked = try desk.start("launch", "TV", "mailto:anna@films.example")
        _ = try await agent.line { $0.contains("Open it? [y/N]") }
        // Launches of another sender, and a later one of the same sender.
        #expect(try await phone.relay("launch", "TV", "https://films.example/1").status == 0)
        let next = try await desk.relay("launch", "TV", "https://films.example/2", "--wait", "60")
        #expect(next.status == 0, "\(next.errorText)")
        let output = await asked.finish()
        #expect(output.status == 6 && output.errorText.contains("was not answered"), "\(output.errorText)")
    }

    @Test func newDevicesShareOneQuestionAboutLocalPages() async throws {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        let (first, second) = (try await account.device(named: "First"), try await account.device(named: "Second"))
        try tv.setAgent("open:\n  command: [\"true\"]")
        let agent = try tv.startAtTerminal("agent")
        _ = try await agent.line { $0.contains("ready") }
        let asked = try first.start("launch", "TV", "http://router.local/")
        _ = try await agent.line { $0.contains("a NEW device that is not approved") }
        _ = try await agent.line { $0.contains("Open it? [y/N]") }
        let other = try await second.relay("launch", "TV", "http://router.local/")
        #expect(other.status == 6 && other.errorText.contains("another new device"), "\(other.errorText)")
        try agent.write("y\n")
        #expect(await asked.finish().status == 0)
    }
    #endif
}
