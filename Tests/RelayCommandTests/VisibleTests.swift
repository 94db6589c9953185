// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

#if os(Linux)
/// Two people on one network who have never met, without an account, a relay or a pairing: one of them is visible to receive.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: TestMachine.isPossible, "root alone makes networks, with iproute2, which scripts/test installs")
)
struct VisibleTests {
    private struct World {
        let hub: TestMachine
        let anna: TestMachine
        let bert: TestMachine

        init() throws {
            let (hub, machines) = try TestMachine.bridge("anna", "bert")
            (self.hub, anna, bert) = (hub, machines[0], machines[1])
            try Data("photo".utf8).write(to: bert.directory.appending(path: "photo.jpg"))
        }

        /// Anna's device is visible, and asks her at her terminal.
        func visible(_ options: String = "", as name: String = "Anna") async throws -> RelayProcess {
            let process = try anna.startAtTerminal("relay receive --visible --name '\(name)' --into in \(options)")
            _ = try await process.line { $0.contains("is visible to everyone") }
            return process
        }

        func received(_ name: String) -> Data? { try? Data(contentsOf: anna.directory.appending(path: "in/\(name)")) }
    }

    private static func neighbours(_ machine: TestMachine) async throws -> [[String: Any]] {
        let output = try await machine.run("relay nearby --json")
        #expect(output.status == 0, "\(output.text) \(output.errorText)")
        if let python = Project.python { #expect(try await JSONSchema.faults([("nearby", output.text)], python: python) == []) }
        return try output.json["neighbours"] as? [[String: Any]] ?? []
    }

    @Test func strangerSendsAPhoto() async throws {
        let world = try World()
        let receiver = try await world.visible("--once")
        let seen = try await Self.neighbours(world.bert)
        #expect(seen.map { $0["name"] as? String } == ["Anna"] && seen.first?["mode"] as? String == "receive", "\(seen)")
        #expect(seen.first?["relation"] as? String == "stranger" && seen.first?["interfaces"] as? [String] == ["eth0"], "\(seen)")
        #expect((seen.first?["addresses"] as? [String])?.contains("10.20.30.2") ?? false, "\(seen)")
        // Without a terminal nobody confirms that it may be anyone.
        let unsure = try await world.bert.run("relay send photo.jpg Anna")
        #expect(unsure.status == 6 && unsure.errorText.contains("Nothing proves"), "\(unsure.text) \(unsure.errorText)")
        let sender = try world.bert.startAtTerminal("relay send photo.jpg anna")
        _ = try await sender.line { $0.contains("Send to it?") }
        try sender.write("y\n")
        let question = try await receiver.line { $0.contains("wants to send") }
        #expect(question.contains("\"bert\", a stranger") && question.contains("photo.jpg"), "\(question)")
        _ = try await receiver.line { $0.contains("Take it?") }
        try receiver.write("y\n")
        let sent = await sender.finish()
        #expect(sent.status == 0, "\(sent.text)")
        let end = await receiver.finish()
        #expect(end.status == 0, "\(end.text)")
        #expect(world.received("photo.jpg") == Data("photo".utf8))
        // Neither device has become one of anybody.
        #expect(try await world.anna.run("relay whoami").status == 3)
        #expect(try await world.bert.run("relay whoami").status == 3)
        #expect(try await Self.neighbours(world.bert).isEmpty)
    }

    /// Both people type the lines of docs/cli.md at their terminals.
    @Test func linesOfTheCommandPageSendAPhoto() async throws {
        let world = try World()
        let lines = Project.machineLines(of: try Project.block(3, of: "docs/cli.md"))
        try #require(lines.map(\.machine) == ["anna", "bert", "bert"])
        let receiver = try world.anna.startAtTerminal(lines[0].command)
        _ = try await receiver.line { $0.contains("is visible to everyone") }
        let seen = try await world.bert.run(lines[1].command)
        #expect(seen.status == 0 && seen.text.contains("anna"), "\(seen.text) \(seen.errorText)")
        let sender = try world.bert.startAtTerminal(lines[2].command)
        _ = try await sender.line { $0.contains("Send to it?") }
        try sender.write("y\n")
        _ = try await receiver.line { $0.contains("Take it?") }
        try receiver.write("y\n")
        let sent = await sender.finish()
        #expect(sent.status == 0, "\(sent.text)")
        receiver.send(SIGTERM)
        _ = await receiver.finish()
        #expect(try Data(contentsOf: world.anna.directory.appending(path: "Photos/photo.jpg")) == Data("photo".utf8))
    }

    @Test func senderMaySayThatTheTargetIsVisible() async throws {
        let world = try World()
        let receiver = try await world.visible()
        let sender = try world.bert.start("exec relay send photo.jpg --text hello Anna --visible --json")
        _ = try await receiver.line { $0.contains("Take it?") }
        try receiver.write("y\n")
        let sent = await sender.finish()
        #expect(sent.status == 0, "\(sent.text) \(sent.errorText)")
        #expect(try sent.json["stranger"] as? Bool == true && sent.json["names"] as? [String] == ["photo.jpg"], "\(sent.text)")
        #expect(sent.errorText.contains("Nothing proves"), "\(sent.errorText)")
        _ = try await receiver.line { $0.contains("hello") }
        receiver.send(SIGTERM)
        _ = await receiver.finish()
        let gone = try await world.bert.run("relay send photo.jpg Anna --visible")
        #expect(gone.status == 4, "\(gone.text) \(gone.errorText)")
    }

    @Test func whoDeclinesIsAskedThreeTimesAtMost() async throws {
        let world = try World()
        let receiver = try await world.visible()
        for _ in 0..<3 {
            let sender = try world.bert.start("exec relay send photo.jpg Anna --visible")
            _ = try await receiver.line { $0.contains("Take it?") }
            try receiver.write("n\n")
            let declined = await sender.finish()
            #expect(declined.status == 6, "\(declined.text) \(declined.errorText)")
        }
        // Another home is another key, and the same address.
        let fourth = try await world.bert.run("relay send photo.jpg Anna --visible --home other")
        #expect(fourth.status == 6, "\(fourth.text) \(fourth.errorText)")
        receiver.send(SIGTERM)
        let rest = await receiver.finish()
        #expect(!rest.text.contains("Take it?"), "\(rest.text)")
        #expect(world.received("photo.jpg") == nil)
    }

    /// The ports of a machine's bridge have addresses of their own, at which neighbours would see it again.
    @Test func machineWithABridgeIsSeenOnce() async throws {
        let world = try World()
        while true {
            let ports = try await world.hub.run("ip -6 -br address show scope link -tentative").text
            if ["br0", "port0", "port1"].allSatisfy(ports.contains) { break }
        }
        let shower = try world.hub.start("exec relay pair --name Anna --json")
        _ = try await shower.line()
        var seen: [[String: Any]] = []
        while seen.isEmpty { seen = try await Self.neighbours(world.bert) }
        #expect(seen.count == 1 && seen.first?["name"] as? String == "Anna", "\(seen)")
        // Each of its names says goodbye before the next one is there.
        for number in 0..<3 {
            try world.hub.add(address: "10.20.31.\(number)", at: "br0")
            let names = try await Self.neighbours(world.bert).map { $0["name"] as? String }
            #expect(names.allSatisfy { $0 == "Anna" } && names.count < 2, "\(names)")
        }
        shower.send(SIGTERM)
        _ = await shower.finish()
    }

    /// A cable and a wireless network often lead to one network.
    @Test func deviceWithTwoWaysIntoANetworkIsSeenOnce() async throws {
        let world = try World()
        try world.anna.connect(toSwitch: world.hub, address: "10.20.30.12/24")
        while true {
            let own = try await world.anna.run("ip -6 -br address show scope link -tentative").text
            if ["eth0", "eth2"].allSatisfy(own.contains) { break }
        }
        let shower = try world.anna.start("exec relay pair --name Anna --json")
        let code = try #require(try JSON.object(try await shower.line())["code"] as? String)
        var seen: [[String: Any]] = []
        while seen.isEmpty { seen = try await Self.neighbours(world.bert) }
        #expect(seen.count == 1, "\(seen)")
        let entered = try await world.bert.run("relay pair --enter --device Anna --name Bert <<< '\(code)'")
        #expect(entered.status == 0, "\(entered.text) \(entered.errorText)")
        _ = await shower.finish()
    }

    /// One mode serves nothing of the other.
    @Test func modesAreApart() async throws {
        let world = try World()
        let receiver = try await world.visible()
        let paired = try await world.bert.run("relay pair --enter --device Anna <<< '12345678'")
        #expect(paired.status == 4, "\(paired.text) \(paired.errorText)")
        for command in [
            "launch Anna https://one.example", "call Anna ping", "ping Anna --count 1", "fetch Anna", "copy Anna - < photo.jpg",
        ] {
            let refused = try await world.bert.run("relay \(command)")
            #expect(refused.status != 0, "\(command): \(refused.text) \(refused.errorText)")
        }
        receiver.send(SIGTERM)
        _ = await receiver.finish()
        let pairing = try world.anna.start("exec relay pair --name Anna --json")
        _ = try await pairing.line()
        #expect(try await Self.neighbours(world.bert).map { $0["mode"] as? String } == ["pair"])
        let sent = try await world.bert.run("relay send photo.jpg Anna --visible")
        #expect(sent.status == 4, "\(sent.text) \(sent.errorText)")
        pairing.send(SIGTERM)
        _ = await pairing.finish()
    }

    @Test func wrongUseSaysWhatToDo() async throws {
        let world = try World()
        let blind = try await world.anna.run("relay receive --visible")
        #expect(blind.status == 2 && blind.errorText.contains("terminal"), "\(blind.text) \(blind.errorText)")
        let asking = try await world.anna.run("relay receive --visible --ask")
        #expect(asking.status == 2 && asking.errorText.contains("leave out --ask"), "\(asking.text) \(asking.errorText)")
        let off = try world.anna.startAtTerminal("DEVICE_RELAY_NEARBY=off relay receive --visible")
        let ended = await off.finish()
        #expect(ended.status == 1 && ended.text.contains("local network"), "\(ended.text)")
        let unused = try await world.anna.run("DEVICE_RELAY_NEARBY=off relay nearby")
        #expect(unused.status == 1, "\(unused.text) \(unused.errorText)")
        let nobody = try await world.anna.run("relay nearby")
        #expect(nobody.status == 0 && nobody.errorText.contains("no device is seen"), "\(nobody.text) \(nobody.errorText)")
        let unplugged = try await world.anna.run("ip link set eth0 down && relay nearby")
        #expect(unplugged.status == 5 && unplugged.errorText.contains("no network"), "\(unplugged.text) \(unplugged.errorText)")
        // Without anybody who is visible, it is as before.
        let alone = try await world.bert.run("relay send photo.jpg Anna")
        #expect(alone.status == 3, "\(alone.text) \(alone.errorText)")
    }

    /// A stranger with the name of a paired device, or the beginning of its id, gets nothing that is meant for it.
    @Test(arguments: [false, true]) func strangerTakesNoNameOfAKnownDevice(hasAccount: Bool) async throws {
        let world = try World()
        let shower = try world.hub.start("exec relay pair --name Anna --json")
        let event = try JSON.object(try await shower.line())
        let code = try #require(event["code"] as? String)
        let entered = try await world.bert.run("relay pair --enter --name Bert --json <<< '\(code)'")
        #expect(entered.status == 0, "\(entered.text) \(entered.errorText)")
        let device = try entered.json["device"] as? [String: Any]
        let id = try #require(device?["device"] as? String)
        _ = await shower.finish()
        var relay: RelayProcess?
        if hasAccount {
            let process = try world.hub.start("exec relayd serve --listen 10.20.30.1")
            relay = process
            let line = try await process.line { $0.contains("#relay=") }
            let link = try #require(line.firstMatch(of: /https:\/\/[^ ']+#relay=[^ ']+/)).0
            let joined = try await world.bert.run("{ relay join --name Bert --yes\n} <<< '\(link)'")
            #expect(joined.status == 0, "\(joined.text) \(joined.errorText)")
        }
        defer { relay?.send(SIGKILL) }
        for name in ["Anna", String(id.prefix(8))] {
            let receiver = try await world.visible(as: name)
            let sent = try await world.bert.run("relay send photo.jpg \(name)")
            #expect(sent.status != 0 && !sent.errorText.contains("stranger"), "\(name): \(sent.text) \(sent.errorText)")
            receiver.send(SIGTERM)
            let rest = await receiver.finish()
            #expect(!rest.text.contains("Take it?"), "\(name): \(rest.text)")
        }
    }

    /// Begins handshakes from several addresses, and never finishes one.
    private static let flood = """
        import os, socket, sys, threading, time
        begun = threading.Semaphore(0)
        def flood(source):
            held = []
            while True:
                try:
                    connection = socket.create_connection(("10.20.30.2", int(sys.argv[1])), 2, (source, 0))
                    connection.recv(20)
                    connection.sendall(b"DRL1\\x01" + os.urandom(40))
                    # Those that are taken stay, without a word.
                    if connection.recv(1):
                        held = held[-50:] + [connection]
                    begun.release()
                except OSError:
                    time.sleep(0.01)
        for number in range(101, 105):
            threading.Thread(target=flood, args=("10.20.30.%d" % number,)).start()
        for _ in range(100):
            begun.acquire()
        print("ready", flush=True)
        """

    @Test func unfinishedHandshakesKeepNobodyOut() async throws {
        let world = try World()
        let receiver = try await world.visible("--once")
        let listening = try await world.anna.run("ss -ltnH | sed -E 's/.*:([0-9]+) .*/\\1/' | head -n 1")
        let port = try #require(UInt16(listening.text.trimmingCharacters(in: .whitespacesAndNewlines)), "\(listening.text)")
        let aliases = try await world.hub.run("for n in 101 102 103 104; do ip address add 10.20.30.$n/24 dev br0 || exit; done")
        #expect(aliases.status == 0, "\(aliases.errorText)")
        try Data(Self.flood.utf8).write(to: world.hub.directory.appending(path: "flood.py"))
        let flood = try world.hub.start("exec python3 flood.py \(port)")
        _ = try await flood.line { $0 == "ready" }
        // If nothing is sent, nobody is asked.
        let sender = try world.bert.start("relay send photo.jpg Anna --visible || { kill -9 \(receiver.id); exit 1; }")
        _ = try await receiver.line { $0.contains("Take it?") }
        try receiver.write("y\n")
        let sent = await sender.finish()
        #expect(sent.status == 0, "\(sent.text) \(sent.errorText)")
        flood.send(SIGKILL)
        _ = await flood.finish()
        _ = await receiver.finish()
        #expect(world.received("photo.jpg") == Data("photo".utf8))
    }

    /// Without an account, commands run beside each other, and a killed one leaves no name.
    @Test func nothingIsKeptOfADeviceWithoutAnAccount() async throws {
        let world = try World()
        let watch = try world.anna.start("exec relay nearby --watch")
        let receiver = try await world.visible()
        #expect(try await world.anna.run("relay nearby").status == 0)
        #expect(try await world.anna.run("relay whoami").status == 3)
        receiver.send(SIGKILL)
        _ = await receiver.finish()
        let other = try await world.visible(as: "Other")
        for process in [other, watch] {
            process.send(SIGTERM)
            _ = await process.finish()
        }
        #expect(try await world.anna.run("relay whoami").status == 3)
    }

    @Test func watchFollowsWhoIsVisible() async throws {
        let world = try World()
        let watch = try world.bert.start("exec relay nearby --watch --json")
        let receiver = try await world.visible()
        func next(_ kind: String) async throws -> [String: Any] {
            while true {
                let line = try await watch.line()
                if let python = Project.python { #expect(try await JSONSchema.faults([("nearby", line)], python: python) == []) }
                let event = try JSON.object(line)
                if event["event"] as? String == kind { return event["neighbour"] as? [String: Any] ?? [:] }
            }
        }
        #expect(try await next("added")["name"] as? String == "Anna")
        receiver.send(SIGTERM)
        _ = await receiver.finish()
        #expect(try await next("removed")["name"] as? String == "Anna")
        watch.send(SIGTERM)
        #expect(await watch.finish().status == 0)
    }

    /// The link on the terminal is the one that the code shows.
    @Test(.enabled(if: QRCodeTests.isPossible, "needs qrencode and zbar-tools, which scripts/test installs"))
    func pairingLinkIsShownAsAQRCode() async throws {
        let world = try World()
        let process = try world.anna.startAtTerminal("stty cols 120; relay pair --name Anna")
        let link = try await process.line { $0.hasPrefix("link") }.split(separator: " ").last.map(String.init) ?? ""
        // It is a square, and a character shows two squares of it, one above the other.
        var lines = [try await process.line { $0.hasPrefix("█") }]
        while lines.count < (lines[0].unicodeScalars.count { $0 == "█" } + 1) / 2 { lines.append(try await process.line()) }
        #expect(
            try await QRCodeTests.decoded(lines.map { $0.trimmingCharacters(in: .newlines) })
                == link.trimmingCharacters(in: .whitespacesAndNewlines)
        )
        process.send(SIGTERM)
        _ = await process.finish()
        // Not into a pipe.
        let piped = try world.anna.start("exec relay pair --name Anna")
        let text = try await piped.line { $0.hasPrefix("link") }
        piped.send(SIGTERM)
        let rest = await piped.finish()
        #expect(!text.isEmpty && !rest.text.contains("█") && !rest.errorText.contains("qrencode"), "\(rest.text)")
    }
}
#endif
