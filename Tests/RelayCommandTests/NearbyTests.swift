// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

#if os(Linux)
/// Devices on one network, with and without the relay. Each is a machine of its own.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: TestMachine.isPossible, "root alone makes networks, with iproute2, which scripts/test installs")
)
struct NearbyTests {
    /// A relay at the switch, and two devices of one account.
    struct World {
        let hub: TestMachine
        let pc: TestMachine
        let phone: TestMachine
        let neighbour: TestMachine
        var relay: RelayProcess
        var agent: RelayProcess

        /// - Parameters:
        ///   - variables: For the PC's agent.
        ///   - relayHasOwnCables: Whether the relay is reached over other cables than the other device.
        ///   - filtersMulticast: Whether the switch passes no multicast on.
        ///   - phoneIsElsewhere: Whether the phone is in another network, to which the switch is the router.
        init(
            _ variables: String = "",
            relayHasOwnCables: Bool = false,
            filtersMulticast: Bool = false,
            phoneIsElsewhere: Bool = false
        ) async throws {
            let (hub, machines) = try TestMachine.bridge("pc", "phone", "neighbour")
            if filtersMulticast { for port in machines.indices { try hub.filterMulticast(port: port) } }
            if phoneIsElsewhere { try hub.route(from: machines[1], in: "10.20.31", to: machines[0]) }
            (self.hub, pc, phone, neighbour) = (hub, machines[0], machines[1], machines[2])
            let address = relayHasOwnCables ? "10.99.0.1" : "10.20.30.1"
            if relayHasOwnCables {
                try hub.add(address: address)
                try pc.connect(to: hub, network: "10.20.41", for: address)
                try phone.connect(to: hub, network: "10.20.42", for: address)
            }
            relay = try hub.start("exec relayd serve --listen \(address)")
            let link = try NearbyTests.link(in: try await relay.line { $0.contains("#relay=") })
            // The machine has no display, so a program records the opened URIs.
            let home = pc.directory.appending(path: ".local/state/device-relay")
            try FileManager.default.createDirectory(
                at: home,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            let command = try Settings.shell("printf '%s\\n' \"$2\" >> \"$1\"", pc.directory.path + "/opened", "{uri}")
            try Data("open:\n  command: \(command)\n".utf8).write(to: home.appending(path: "agent.yaml"))
            let joined = try await pc.run(NearbyTests.pasting(link, into: "relay join --name pc --yes"))
            try #require(joined.status == 0, "\(joined.errorText)")
            agent = try pc.start("exec env \(variables) relay agent")
            _ = try await agent.line { $0.hasPrefix("ready") }
            let invited = try await pc.run("relay invite")
            let second = try await phone.run(
                NearbyTests.pasting(try NearbyTests.link(in: invited.text), into: "relay join --name phone --yes")
            )
            try #require(second.status == 0, "\(second.errorText)")
            // The PC knows the phone now, and the phone what the PC's apps take.
            let pinged = try await phone.run("relay ping pc --count 1")
            try #require(pinged.status == 0, "\(pinged.errorText)")
        }

        /// Where the PC records the URIs that it opens.
        var opened: String { pc.directory.path + "/opened" }

        mutating func startRelay(at address: String = "10.20.30.1") async throws {
            relay = try hub.start("exec relayd serve --listen \(address)")
            _ = try await relay.line { $0.contains(address) }
        }

        mutating func loseRelay() async {
            relay.send(SIGKILL)
            _ = await relay.finish()
        }

        mutating func restartAgent() async throws {
            agent.send(SIGKILL)
            _ = await agent.finish()
            agent = try pc.start("exec relay agent")
            _ = try await agent.errorLine { $0.contains("not connected") }
        }
    }

    fileprivate static func link(in text: String) throws -> String {
        String(try #require(text.firstMatch(of: /https:\/\/[^ ']+#relay=[^ ']+/)).0)
    }

    fileprivate static func pasting(_ link: String, into command: String) -> String { "{ \(command)\n} <<< '\(link)'" }

    @Test func devicesReachEachOtherWithoutTheRelay() async throws {
        var world = try await World()
        let phoneAgent = try world.phone.start("exec relay agent")
        _ = try await phoneAgent.line { $0.hasPrefix("ready") }
        let known = try await world.pc.run("relay ping phone --count 1")
        #expect(known.status == 0, "\(known.errorText)")
        await world.loseRelay()
        let ping = try await world.phone.run("relay ping pc --count 3 --interval 0.1")
        #expect(ping.status == 0 && ping.output.contains("3 sent, 3 received, 0 lost"), "\(ping.text) \(ping.errorText)")
        let devices = try await world.phone.run("relay devices --json").json
        #expect(devices["current"] as? Bool == false)
        let listed = try #require((devices["devices"] as? [[String: Any]])?.first)
        #expect(listed["status"] as? String == "discoveringAvailability" && listed["reason"] as? String == "nearby", "\(listed)")
        try Data("photo".utf8).write(to: world.phone.directory.appending(path: "photo.jpg"))
        let sent = try await world.phone.run("relay send photo.jpg pc")
        #expect(sent.status == 0, "\(sent.errorText)")
        let there = world.pc.directory.appending(path: "Downloads/photo.jpg")
        #expect(try Data(contentsOf: there) == Data("photo".utf8))
        // Both directions: a command of a device says nothing about what its agent offers.
        for _ in 0..<2 {
            let there = try await world.phone.run("relay ping pc --count 1")
            #expect(there.status == 0, "\(there.text) \(there.errorText)")
            let back = try await world.pc.run("relay ping phone --count 1")
            #expect(back.status == 0, "\(back.text) \(back.errorText)")
        }
        // Neither the relay nor a connection to it is needed to start.
        try await world.restartAgent()
        let again = try await world.phone.run("relay ping pc --count 1")
        #expect(again.status == 0, "\(again.text) \(again.errorText)")
        // Without the cable there is no way left, and that is what the error says.
        try world.phone.setCable(false)
        let alone = try await world.phone.run("relay ping pc --count 1")
        #expect(alone.status == 5 && alone.errorText.contains("relay"), "\(alone.text) \(alone.errorText)")
        try world.phone.setCable(true)
        let back = try await world.phone.run("relay ping pc --count 1")
        #expect(back.status == 0, "\(back.text) \(back.errorText)")
        phoneAgent.send(SIGKILL)
    }

    /// A launch needs no relay between devices that know each other, and happens once when the relay is back.
    @Test func launchesArriveWithoutTheRelay() async throws {
        var world = try await World()
        await world.loseRelay()
        let launched = try await world.phone.run("relay launch pc https://one.example")
        #expect(launched.status == 0, "\(launched.text) \(launched.errorText)")
        #expect(RelayCommandTests.lines(of: world.opened) == ["https://one.example"])
        // Killed agents and commands change nothing.
        try await world.restartAgent()
        let again = try await world.phone.run("relay launch pc https://three.example")
        #expect(again.status == 0, "\(again.text) \(again.errorText)")
        // With neither, nothing is sent.
        try world.phone.setCable(false)
        let alone = try await world.phone.run("relay launch pc https://four.example")
        #expect(alone.status == 5 && alone.errorText.contains("relay"), "\(alone.text) \(alone.errorText)")
        try world.phone.setCable(true)
        let next = try await world.phone.run("relay launch pc https://five.example")
        #expect(next.status == 0, "\(next.text) \(next.errorText)")
        let all = ["https://one.example", "https://three.example", "https://five.example"]
        #expect(RelayCommandTests.lines(of: world.opened) == all)
        // The relay comes back, and hears of nothing that it could deliver again.
        try await world.startRelay()
        let last = try await world.phone.run("relay launch pc https://six.example")
        #expect(last.status == 0, "\(last.text) \(last.errorText)")
        #expect(RelayCommandTests.lines(of: world.opened) == all + ["https://six.example"])
        let commands = try await world.phone.run("relay commands --json").json["commands"] as? [[String: Any]]
        #expect(commands?.count == 4 && commands?.allSatisfy { $0["ended"] as? Bool == true } ?? false, "\(commands ?? [])")
    }

    /// Without the relay, nobody says who was revoked meanwhile.
    @Test func deviceThatHasLongNotHeardFromItsRelayTrustsNobody() async throws {
        var world = try await World()
        await world.loseRelay()
        world.agent.send(SIGKILL)
        _ = await world.agent.finish()
        let home = world.pc.directory.appending(path: ".local/state/device-relay").path
        let statement = "UPDATE meta SET listed = listed - 31 * 86400000"
        let aged = try await world.pc.run(
            """
            python3 -c "import glob, sqlite3
            for journal in glob.glob('\(home)/accounts/**/*.sqlite', recursive=True):
                database = sqlite3.connect(journal)
                print(database.execute('\(statement)').rowcount)
                database.commit()"
            """
        )
        try #require(!aged.output.isEmpty && aged.output.allSatisfy { $0 == "1" }, "\(aged.text) \(aged.errorText)")
        try await world.restartAgent()
        let ping = try await world.phone.run("relay ping pc --count 1")
        #expect(ping.status != 0 && ping.errorText.contains("has not heard from its relay"), "\(ping.text) \(ping.errorText)")
        let launch = try world.phone.start("exec relay launch pc https://one.example")
        try await world.startRelay()
        let launched = await launch.finish()
        #expect(launched.status == 0, "\(launched.text) \(launched.errorText)")
        #expect(RelayCommandTests.lines(of: world.opened) == ["https://one.example"])
        let again = try await world.phone.run("relay ping pc --count 1")
        #expect(again.status == 0, "\(again.text) \(again.errorText)")
    }

    /// A conversation goes on through the relay while the cable is out, and directly when it is in again.
    @Test func aConversationSurvivesTheCable() async throws {
        let world = try await World(relayHasOwnCables: true)
        let ping = try world.phone.start("exec relay ping pc --interval 0.2 --timeout 60")
        _ = try await ping.line { $0.contains("number 3,") }
        try await Self.isDirect(true, world.phone)
        for _ in 0..<2 {
            try world.phone.setCable(false)
            try await Self.isDirect(false, world.phone)
            let last = try await Self.lastNumber(of: ping)
            _ = try await ping.line { (Self.number(in: $0) ?? 0) > last + 3 }
            try world.phone.setCable(true)
            try await Self.isDirect(true, world.phone)
            let next = try await Self.lastNumber(of: ping)
            _ = try await ping.line { (Self.number(in: $0) ?? 0) > next + 3 }
        }
        ping.send(SIGINT)
        let output = await ping.finish()
        // The last one may be under way.
        let lost = output.text.firstMatch(of: /([0-9]+) lost/).flatMap { Int($0.1) }
        #expect(lost.map { $0 <= 1 } == true && !output.text.contains("no answer"), "\(output.text) \(output.errorText)")
    }

    static func number(in line: String) -> Int? { line.firstMatch(of: /answer from pc: number ([0-9]+),/).flatMap { Int($0.1) } }

    static func lastNumber(of ping: RelayProcess) async throws -> Int {
        try await number(in: ping.line { number(in: $0) != nil }) ?? 0
    }

    /// Waits until the machine has a connection over the cable to the switch, or has none.
    static func isDirect(_ isDirect: Bool, _ machine: TestMachine) async throws {
        while true {
            let connections = try await machine.run("ss -tnH state established").text
            if (connections.contains("%eth0") || connections.contains("10.20.30.")) == isDirect { return }
            try Task.checkCancellation()
        }
    }

    @Test func whoIsOffIsNotFound() async throws {
        var world = try await World("DEVICE_RELAY_NEARBY=off")
        await world.loseRelay()
        let heard = try world.neighbour.start(Python.script("mdns-listen.py", "10.20.30.4", "4"))
        _ = try await heard.line { $0 == "listening" }
        let ping = try await world.phone.run("relay ping pc --count 1")
        #expect(ping.status == 5, "\(ping.text)")
        let senders = await heard.finish().output.map { $0.prefix { $0 != " " } }
        #expect(senders.contains("10.20.30.3"), "the phone asks")
        #expect(!senders.contains("10.20.30.2"), "the PC says nothing: \(senders)")
    }

    /// A neighbour that hears everything cannot tell that a device it sees now is one of before, except by its address: neither after a restart
    /// nor after the cable was out.
    @Test func advertisementsOfTwoAttachmentsShareNothing() async throws {
        var world = try await World()
        await world.loseRelay()
        let heard = try world.neighbour.start(Python.script("mdns-listen.py", "10.20.30.4", "240"))
        _ = try await heard.line { $0 == "listening" }
        var attachments: [Set<String>] = []
        for number in 0..<4 {
            if number % 2 == 0 {
                try await world.restartAgent()
            } else {
                try world.pc.setCable(false)
                // The agent has left the network.
                while try await world.pc.run("ss -ulnH sport = :5353").text.contains("5353") { try Task.checkCancellation() }
                try world.pc.setCable(true)
            }
            attachments.append(try await Self.nextAttachment(heard, after: attachments))
        }
        for (index, one) in attachments.enumerated() {
            // The port, the nonce, 8 tags, and the labels of the instance and its host.
            #expect(one.count >= 12, "\(one)")
            for other in attachments[..<index] { #expect(one.isDisjoint(with: other), "\(one.intersection(other))") }
        }
        heard.send(SIGKILL)
        _ = await heard.finish()
    }

    /// What the PC says of itself from an advertisement with another nonce on.
    private static func nextAttachment(_ heard: RelayProcess, after earlier: [Set<String>]) async throws -> Set<String> {
        let known = earlier.reduce(into: Set()) { $0.formUnion($1) }
        while true {
            let line = try await heard.line { $0.hasPrefix("10.20.30.2 ") }
            let bytes = try #require(Hexadecimal.decode(String(line.dropFirst("10.20.30.2 ".count))))
            let message = try DNSMessage(decoding: bytes)
            let records = message.records.filter { $0.timeToLive > 0 }
            guard
                let text = records.compactMap({ if case .text(let strings) = $0.content { Advertisement(strings: strings) } else { nil } })
                    .first,
                !known.contains("nonce \(text.nonce)")
            else { continue }
            var fields: Set = ["nonce \(text.nonce)"]
            for tag in text.tags { fields.insert("tag \(tag)") }
            for record in records {
                switch record.content {
                case .service(let port, let target):
                    fields.formUnion(["port \(port)", "name \(record.name)", "name \(target)"])
                case .address: fields.insert("name \(record.name)")
                case .pointer, .text, .other: break
                }
            }
            // An answer to another question has less.
            if fields.contains(where: { $0.hasPrefix("port ") }) { return fields }
        }
    }

    // MARK: Independent peers

    @Test(.enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has zeroconf"))
    func zeroconfSeesUsAndIsSeen() async throws {
        let world = try await World()
        let zeroconf = try world.neighbour.start(Python.script("nearby-zeroconf.py", "10.20.30.4"))
        // Its own instance, and the PC's with all that its advertisement has.
        let found = try await zeroconf.line { $0.hasPrefix("found 10.20.30.2 ") }
        #expect(found.wholeMatch(of: /found 10\.20\.30\.2 port=[0-9]+ v=1 n=12 t0=32 [a-z2-7]{16}/) != nil, "\(found)")
        try await world.phone.sees(2)
        zeroconf.send(SIGTERM)
        _ = await zeroconf.finish()
        // Its goodbye is heard.
        try await world.phone.sees(1)
        let resolved = try await world.phone.run("relay ping pc --count 1")
        #expect(resolved.status == 0, "\(resolved.errorText)")
    }

    /// Avahi runs on the same machine as the command, and holds the port too.
    @Test(
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: "/usr/sbin/avahi-daemon"),
            "scripts/test installs avahi-daemon and avahi-utils"
        )
    )
    func avahiSeesUsAndIsSeenOnTheSameMachine() async throws {
        var world = try await World()
        await world.loseRelay()
        let lines = [
            "export DBUS_SYSTEM_BUS_ADDRESS=$DBUS_SESSION_BUS_ADDRESS",
            "printf '[server]\\nuse-ipv4=yes\\nuse-ipv6=yes\\n[rlimits]\\n' > avahi.conf",
            "mount -t tmpfs tmpfs /run/avahi-daemon 2>/dev/null || { mkdir -p /run/avahi-daemon; mount -t tmpfs tmpfs /run/avahi-daemon; }",
            "avahi-daemon --no-drop-root --no-chroot --no-rlimits -f avahi.conf > avahi.log 2>&1 &",
            "until avahi-browse -at > /dev/null 2>&1; do sleep 0.1; done",
            "avahi-publish -s other _device-relay._tcp 4711 v=1 n=abcdefghijkl t0=aaaabbbbccccddddeeeeffffgggghhhh > publish.log 2>&1 &",
            "until grep -q Established publish.log; do sleep 0.1; done",
            "echo published",
            "exec stdbuf -oL avahi-browse -rp _device-relay._tcp",
        ]
        try Data(lines.joined(separator: "\n").utf8).write(to: world.phone.directory.appending(path: "avahi.sh"))
        let avahi = try world.phone.start("exec dbus-run-session bash avahi.sh")
        _ = try await avahi.line { $0 == "published" }
        let found = try await avahi.line { $0.hasPrefix("=;") && $0.contains(";10.20.30.2;") }
        #expect(found.contains("v=1") && found.contains("_device-relay._tcp"), "\(found)")
        try await world.phone.sees(2)
        let ping = try await world.phone.run("relay ping pc --count 1")
        #expect(ping.status == 0, "\(ping.text) \(ping.errorText)")
        // Its processes end with the machine.
    }

    // MARK: Attacks

    /// Copied advertisements, replayed knocks, floods and nonsense of a neighbour lead nowhere, and hinder nobody.
    @Test func neighbourLearnsAndHindersNothing() async throws {
        var world = try await World()
        await world.loseRelay()
        let attacker = try world.neighbour.start(Python.script("nearby-attack.py", "10.20.30.4", "10.20.30.2"))
        _ = try await attacker.line { $0 == "copied" }
        for _ in 0..<3 {
            let ping = try await world.phone.run("relay ping pc --count 2 --interval 0.1 --timeout 20")
            #expect(ping.status == 0, "\(ping.text) \(ping.errorText)")
        }
        attacker.send(SIGTERM)
        let output = await attacker.finish()
        // Whoever took its copies for the PC has sent a knock, and no handshake.
        #expect(output.output.contains("no handshake"), "\(output.text) \(output.errorText)")
        #expect(output.output.contains("no answer to a replayed knock"), "\(output.text) \(output.errorText)")
    }
}

enum Python {
    /// The command line of a script of `scripts`.
    static func script(_ name: String, _ arguments: String...) -> String {
        let path = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../scripts/\(name)").standardizedFileURL.path
        let python = ProcessInfo.processInfo.environment["DEVICE_RELAY_PYTHON"] ?? "python3"
        return (["exec", python, path] + arguments).joined(separator: " ")
    }
}
#endif
