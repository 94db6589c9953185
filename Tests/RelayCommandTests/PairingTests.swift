// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

#if os(Linux)
/// Devices of two people on one network, without an account and without a relay.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: TestMachine.isPossible, "root alone makes networks, with iproute2, which scripts/test installs")
)
struct PairingTests {
    private struct World {
        let hub: TestMachine
        let anna: TestMachine
        let bert: TestMachine

        init() throws {
            let (hub, machines) = try TestMachine.bridge("anna", "bert")
            (self.hub, anna, bert) = (hub, machines[0], machines[1])
        }

        /// Makes Anna's device visible.
        func visible() async throws -> (process: RelayProcess, event: [String: Any]) {
            let process = try anna.start("exec relay pair --name Anna --json")
            return (process, try await PairingTests.event(of: process))
        }

        func enter(_ text: String, _ options: String = "") async throws -> CommandOutput {
            try await bert.run("exec relay pair --enter --name Bert \(options) <<< '\(text)'")
        }

        func pair() async throws {
            let (process, event) = try await visible()
            let entered = try await enter(try #require(event["code"] as? String))
            #expect(entered.status == 0, "\(entered.text) \(entered.errorText)")
            #expect(await process.finish().status == 0)
        }

        /// Anna's device gets an account, too.
        func annaJoins() async throws -> RelayProcess {
            let relay = try hub.start("exec relayd serve --listen 10.20.30.1")
            let line = try await relay.line { $0.contains("#relay=") }
            let link = String(try #require(line.firstMatch(of: /https:\/\/[^ ']+#relay=[^ ']+/)).0)
            let joined = try await anna.run("relay join --yes <<< '\(link)'")
            #expect(joined.status == 0, "\(joined.text) \(joined.errorText)")
            return relay
        }

        /// Anna's agent, which opens what a prompt program admits.
        func agent() async throws -> RelayProcess {
            let home = anna.directory.appending(path: ".local/state/device-relay")
            let command = try Settings.shell("printf '%s\\n' \"$2\" >> \"$1\"", opened, "{uri}")
            try Data("open:\n  command: \(command)\n  prompt: [/bin/true]\n".utf8).write(to: home.appending(path: "agent.yaml"))
            let agent = try anna.start("exec relay agent")
            _ = try await agent.line { $0.hasPrefix("ready") }
            return agent
        }

        var opened: String { anna.directory.path + "/opened" }
    }

    private static func event(of process: RelayProcess) async throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(try await process.line().utf8)) as? [String: Any])
    }

    private static func names(_ machine: TestMachine) async throws -> [String] {
        let all = try await machine.run("relay devices --all --json").json["endpoints"] as? [[String: Any]]
        return (all ?? []).compactMap { $0["name"] as? String }
    }

    /// Two people who have never met share a photo after one code.
    @Test func strangersShareAPhotoAfterOneCode() async throws {
        let world = try World()
        let (process, event) = try await world.visible()
        #expect(event["event"] as? String == "visible" && event["name"] as? String == "Anna" && event["failures"] as? Int == 0)
        let entered = try await world.enter(try #require(event["code"] as? String), "--json")
        let there = try entered.json["device"] as? [String: Any]
        #expect(entered.status == 0 && there?["name"] as? String == "Anna", "\(entered.text) \(entered.errorText)")
        let last = try await Self.event(of: process)
        #expect((last["device"] as? [String: Any])?["name"] as? String == "Bert", "\(last)")
        #expect(await process.finish().status == 0)

        try Data("photo".utf8).write(to: world.bert.directory.appending(path: "photo.jpg"))
        // Each transfer is a question to the person.
        let receiver = try world.anna.startAtTerminal("relay receive --into in --once")
        _ = try await receiver.line { $0.contains("receiving into") }
        let sending = try world.bert.start("exec relay send photo.jpg Anna")
        _ = try await receiver.line { $0.contains("Take it?") }
        try receiver.write("y\n")
        let sent = await sending.finish()
        #expect(sent.status == 0, "\(sent.text) \(sent.errorText)")
        _ = await receiver.finish()
        #expect(try Data(contentsOf: world.anna.directory.appending(path: "in/photo.jpg")) == Data("photo".utf8))
        let devices = try await world.bert.run("relay devices --json").json["devices"] as? [[String: Any]]
        #expect(devices?.map { $0["paired"] as? Bool } == [true], "\(devices ?? [])")

        // Without a terminal there is nobody to ask.
        let unattended = try world.anna.start("exec relay receive --into in --json")
        _ = try await unattended.line { $0.contains("ready") }
        let refused = try await world.bert.run("relay send photo.jpg Anna")
        #expect(refused.status == 6, "\(refused.text) \(refused.errorText)")
        unattended.send(SIGTERM)
        _ = await unattended.finish()
    }

    /// The lines of a page, as both people type them at their terminals: one shows a code, which the other one enters, and the first one
    /// receives what the other one sends.
    private static func share(by block: String) async throws {
        let world = try World()
        try Data("photo".utf8).write(to: world.bert.directory.appending(path: "photo.jpg"))
        let lines = Project.machineLines(of: block)
        try #require(lines.count == 4 && lines[0].machine == lines[2].machine && lines[1].machine == lines[3].machine)
        let shower = try world.anna.startAtTerminal(lines[0].command)
        let shown = try await shower.line { $0.contains(/[0-9]{4} [0-9]{4}/) }
        let code = try #require(shown.firstMatch(of: /[0-9]{4} [0-9]{4}/)).0
        let entering = try world.bert.startAtTerminal(lines[1].command)
        _ = try await entering.line { $0.contains("Type the eight digits") }
        try entering.write("\(code)\n")
        let entered = await entering.finish()
        #expect(entered.status == 0, "\(entered.text)")
        #expect(await shower.finish().status == 0)
        let receiver = try world.anna.startAtTerminal(lines[2].command)
        _ = try await receiver.line { $0.contains("receiving into") }
        let sending = try world.bert.startAtTerminal(lines[3].command)
        _ = try await receiver.line { $0.contains("Take it?") }
        try receiver.write("y\n")
        let sent = await sending.finish()
        #expect(sent.status == 0, "\(sent.text)")
        if !lines[2].command.contains("--once") { receiver.send(SIGTERM) }
        _ = await receiver.finish()
        #expect(try Data(contentsOf: world.anna.directory.appending(path: "Photos/photo.jpg")) == Data("photo".utf8))
    }

    @Test func linesOfTheCommandPageShareAPhoto() async throws { try await Self.share(by: Project.block(2, of: "docs/cli.md")) }

    @Test func linesOfTheREADMEShareAPhoto() async throws {
        try await Self.share(by: Project.block(4, of: "README.md").replacing("NAME", with: "anna"))
    }

    @Test func pairedDevicesLaunchPagesAndNothingElse() async throws {
        let world = try World()
        try await world.pair()
        // It was paired before the agent started, and again while it runs.
        let agent = try await world.agent()
        let launched = try await world.bert.run("relay launch Anna https://one.example")
        #expect(launched.status == 0, "\(launched.text) \(launched.errorText)")
        #expect(RelayCommandTests.lines(of: world.opened) == ["https://one.example"])
        let other = try await world.bert.run("relay launch Anna mailto:a@example.org")
        #expect(other.status == 4, "\(other.text) \(other.errorText)")
        let call = try await world.bert.run("relay call Anna/org.device-relay.agent echo '{}'")
        #expect(call.status == 4, "\(call.text) \(call.errorText)")

        // Anna ends it. Her running agent takes nothing more from Bert.
        let ended = try await world.anna.run("relay unpair Bert")
        #expect(ended.status == 0, "\(ended.text) \(ended.errorText)")
        #expect(try await Self.names(world.anna).isEmpty)
        let refused = try await world.bert.run("relay launch Anna https://two.example --wait 2")
        #expect([5, 8].contains(refused.status), "\(refused.text) \(refused.errorText)")
        #expect(RelayCommandTests.lines(of: world.opened) == ["https://one.example"])
        // Paired again, it works again, with the same running agent.
        try await world.pair()
        let third = try await world.bert.run("relay launch Anna https://three.example")
        #expect(third.status == 0, "\(third.text) \(third.errorText)")
        let byBert = try await world.bert.run("relay unpair anna")
        #expect(byBert.status == 0, "\(byBert.text) \(byBert.errorText)")
        let unknown = try await world.bert.run("relay launch Anna https://four.example")
        #expect(unknown.status == 4, "\(unknown.text) \(unknown.errorText)")
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    /// Each wrong code is answered with another one, and three end it.
    @Test func wrongCodesEndIt() async throws {
        let world = try World()
        let (process, first) = try await world.visible()
        var code = try #require(first["code"] as? String)
        for failures in 1...2 {
            let wrong = String(code.dropLast()) + (code.last == "0" ? "1" : "0")
            let entered = try await world.enter(wrong)
            #expect(entered.status == 6, "\(entered.text) \(entered.errorText)")
            let again = try await world.enter(wrong)
            #expect(again.status == 6 && again.errorText.contains("tried before"), "\(again.text) \(again.errorText)")
            let next = try await Self.event(of: process)
            #expect(next["failures"] as? Int == failures)
            let other = try #require(next["code"] as? String)
            #expect(other != code, "a code serves one attempt")
            code = other
        }
        let wrong = String(code.dropLast()) + (code.last == "0" ? "1" : "0")
        #expect(try await world.enter(wrong).status == 6)
        let end = await process.finish()
        #expect(end.status == 6, "\(end.text) \(end.errorText)")
        #expect(try await Self.names(world.anna).isEmpty)
        // Nobody is visible any more, and neither device has kept anything.
        let nobody = try await world.enter(code)
        #expect(nobody.status == 4, "\(nobody.text) \(nobody.errorText)")
        #expect(try await world.bert.run("relay devices").status == 3)
    }

    @Test func linksPairOnce() async throws {
        let world = try World()
        let (process, event) = try await world.visible()
        let link = try #require(event["link"] as? String)
        let entered = try await world.enter(link)
        #expect(entered.status == 0, "\(entered.text) \(entered.errorText)")
        #expect(await process.finish().status == 0)
        let again = try await world.enter(link)
        #expect(again.status == 5, "\(again.text) \(again.errorText)")
    }

    @Test func wrongUseSaysWhatToDo() async throws {
        let world = try World()
        for (text, part) in [("12", "digits"), ("device-relay-pair:#id=1", "relay pair"), ("https://relay.example/#relay=1", "relay pair")]
        {
            let entered = try await world.enter(text)
            #expect(entered.status == 2 && entered.errorText.contains(part), "\(entered.text) \(entered.errorText)")
        }
        let off = try await world.anna.run("DEVICE_RELAY_NEARBY=off relay pair --name Anna")
        #expect(off.status == 1 && off.errorText.contains("local network"), "\(off.text) \(off.errorText)")
        // What was not paired leaves nothing behind.
        #expect(try await world.anna.run("relay whoami").status == 3)
        try await world.pair()
        for command in ["relay invite", "relay leave", "relay revoke Bert"] {
            let refused = try await world.anna.run(command)
            #expect(refused.status == 3 && refused.errorText.contains("relay"), "\(command): \(refused.text) \(refused.errorText)")
        }
    }

    /// Whoever is paired chooses his own name, also that of a device of the account.
    @Test func pairedDeviceTakesNoOtherName() async throws {
        let world = try World()
        try await world.pair()
        let relay = try await world.annaJoins()
        // A device of the account that publishes nothing.
        let invited = try await world.anna.run("relay invite")
        let pc = try await world.hub.run("relay join --name PC --yes <<< '\(invited.text)'")
        #expect(pc.status == 0, "\(pc.text) \(pc.errorText)")
        let renamed = try await world.bert.run("relay rename pc")
        #expect(renamed.status == 0 && !renamed.errorText.contains("does not know"), "\(renamed.text) \(renamed.errorText)")
        let receiver = try world.bert.start("exec relay receive --json")
        _ = try await receiver.line { $0.contains("ready") }
        for command in ["relay send --text secret PC", "relay launch PC https://one.example", "relay send --text secret pc"] {
            let sent = try await world.anna.run(command)
            #expect(sent.status == 2 && sent.errorText.contains("paired"), "\(command): \(sent.text) \(sent.errorText)")
        }
        receiver.send(SIGTERM)
        _ = await receiver.finish()
        relay.send(SIGTERM)
        _ = await relay.finish()
    }

    /// An app that has ended is not sent to.
    @Test func receiverThatEndedIsNotChosenAgain() async throws {
        let world = try World()
        try await world.pair()
        let receiver = try world.anna.start("exec relay receive --into in --json")
        _ = try await receiver.line { $0.contains("ready") }
        try Data("photo".utf8).write(to: world.bert.directory.appending(path: "photo.jpg"))
        #expect(try await world.bert.run("relay send photo.jpg Anna").status == 6)
        receiver.send(SIGTERM)
        _ = await receiver.finish()
        // The agent is asked now, and no app that nobody hosts any more.
        let agent = try await world.agent()
        let sent = try await world.bert.run("relay send photo.jpg Anna --json")
        #expect(sent.status == 6, "\(sent.text) \(sent.errorText)")
        let apps = try await world.bert.run("relay devices --json").json["devices"] as? [[String: Any]]
        let ids = (apps?.first?["apps"] as? [[String: Any]])?.compactMap { $0["id"] as? String }
        #expect(ids == ["org.device-relay.agent"], "\(ids ?? [])")
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    /// A device with an account can be paired, too, and loses neither by the other.
    @Test func accountAndPairingsAreApart() async throws {
        let world = try World()
        try await world.pair()
        let relay = try await world.annaJoins()
        #expect(try await Self.names(world.anna).contains("Bert"))
        #expect(try await world.anna.run("relay whoami --json").json["name"] as? String == "Anna")
        let agent = try await world.agent()
        let launched = try await world.bert.run("relay launch Anna https://one.example")
        #expect(launched.status == 0, "\(launched.text) \(launched.errorText)")
        agent.send(SIGTERM)
        _ = await agent.finish()
        let left = try await world.anna.run("relay leave")
        #expect(left.status == 0, "\(left.text) \(left.errorText)")
        #expect(try await Self.names(world.anna) == ["Bert"])
        relay.send(SIGTERM)
        _ = await relay.finish()
    }
}
#endif
