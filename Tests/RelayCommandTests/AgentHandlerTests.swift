// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import Testing

/// Links that installed programs open: real desktop entries, and real programs that record what they get.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentHandlerTests {
    /// Desk with a desktop of its own.
    private final class World {
        let account: TestAccount
        let desk: TestDevice
        let tv: TestDevice
        var agent: RelayProcess
        private let host: RelayProcess
        let data: String
        let record: String

        init(_ settings: String = "", _ programs: (World) throws -> Void) async throws {
            account = try await TestAccount()
            desk = try await account.device(named: "Desk")
            tv = try await Self.guest(of: desk, "TV")
            host = try await tv.host("--app", "com.example.player", "--scheme", "https")
            (data, record) = (desk.directory.path + "/data", desk.directory.path + "/record")
            // There is no display behind it, and no other program of this machine counts.
            desk.variables = ["DISPLAY": ":99", "XDG_DATA_HOME": data, "XDG_DATA_DIRS": data + "/none", "XDG_CONFIG_DIRS": data + "/none"]
            // The agent is started after the programs are there.
            agent = host
            try programs(self)
            agent = try await desk.agent(settings)
        }

        /// A device that Desk knows.
        static func guest(of desk: TestDevice, _ name: String) async throws -> TestDevice {
            let device = try TestDevice(in: FileManager.default.temporaryDirectory)
            let link = try #require(try await desk.relay("invite", "--json").json["link"] as? String)
            try #require(try await device.relay("join", link, "--name", name).status == 0)
            return device
        }

        /// A program that appends its name, the number of its arguments and each of them to the record.
        func install(_ name: String, _ scheme: String = "x-note", then end: String = "", exec: String = "%u", more: String = "") throws {
            let folder = URL(filePath: data + "/applications")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let program = "\(data)/my \(name)"
            let script = #"""
                #!/bin/sh
                { printf '%s %s' '\#(name)' "$#"; printf ' <%s>' "$@"; echo; } >> '\#(record)'
                \#(end)

                """#
            try Data(script.utf8).write(to: URL(filePath: program))
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program)
            let entry = """
                [Desktop Entry]
                Type=Application
                Name=Program \(name.uppercased())
                Exec="\(program)" \(exec)
                MimeType=x-scheme-handler/\(scheme);
                \(more)

                """
            try Data(entry.utf8).write(to: folder.appending(path: "\(name).desktop"))
        }

        func setDefault(_ id: String) throws {
            let text = "[Default Applications]\nx-scheme-handler/x-note=\(id)\n"
            try Data(text.utf8).write(to: URL(filePath: data + "/applications/mimeapps.list"))
        }

        /// What was opened so far.
        var opened: [String] { lines(of: record) }

        func follower() async throws -> RelayProcess {
            let follower = try desk.start("asks", "--follow", "--json")
            _ = try await follower.line()
            return follower
        }

        /// Launches a URI, and answers the question about it.
        /// - Returns: The question, and how the launch ended.
        func launch(
            _ uri: String,
            from device: TestDevice? = nil,
            _ follower: RelayProcess,
            answer: String...
        ) async throws -> (ask: [String: Any], output: CommandOutput) {
            let launch = try (device ?? tv).start("launch", "Desk", uri, "--json")
            let line = try JSON.object(try await follower.line { $0.contains(#""uri":"\#(uri)""#) })
            let ask = try #require((line["asks"] as? [[String: Any]])?.first)
            let id = try #require(ask["id"] as? String)
            let answered = try await desk.run(["asks", "answer", id] + answer)
            #expect(answered.status == 0, "\(answered.errorText)")
            return (ask, await launch.finish())
        }

        var grants: [[String: Any]] {
            get async throws {
                let all = try #require(try await desk.relay("grants", "--json").json["grants"] as? [[String: Any]])
                return all.filter { $0["source"] as? String != "settings" }
            }
        }
    }

    @Test func consentIsOnceForADeviceAndAScheme() async throws {
        let world = try await World { try $0.install("a") }
        // Nobody can be asked: nothing opens, and the sender learns why.
        let alone = try await world.tv.relay("launch", "Desk", "x-note:0")
        #expect(alone.status == 6 && alone.errorText.contains("no person can be asked"), "\(alone.errorText)")
        #expect(world.opened == [])
        let follower = try await world.follower()
        let (ask, output) = try await world.launch("x-note:1", follower, answer: "always")
        #expect(output.status == 0, "\(output.errorText)")
        let handlers = try #require(ask["handlers"] as? [[String: String]])
        #expect(handlers == [["id": "a.desktop", "name": "Program A"]] && ask["canAlways"] as? Bool == true)
        follower.send(SIGINT)
        _ = await follower.finish()
        // Without anybody who looks.
        #expect(try await world.tv.relay("launch", "Desk", "x-note:2").status == 0)
        #expect(world.opened == ["a 1 <x-note:1>", "a 1 <x-note:2>"])
        let grant = try #require(try await world.grants.first)
        #expect(grant["scheme"] as? String == "x-note" && grant["handler"] as? [String: String] == handlers.first)
        #expect(try await world.desk.relay("grants").text.contains("open x-note: links with Program A"))
        // Another device is asked about anew, and so is this one without the grant.
        let phone = try await World.guest(of: world.desk, "Phone")
        let again = try await world.follower()
        let (other, declined) = try await world.launch("x-note:3", from: phone, again, answer: "no")
        #expect((other["device"] as? [String: Any])?["name"] as? String == "Phone" && declined.status == 6)
        #expect(try await world.desk.relay("grants", "remove", try #require(grant["id"] as? String)).status == 0)
        #expect(try await world.launch("x-note:4", again, answer: "once").output.status == 0)
        // Once is no grant.
        #expect(try await world.launch("x-note:5", again, answer: "no").output.status == 6)
        #expect(world.opened == ["a 1 <x-note:1>", "a 1 <x-note:2>", "a 1 <x-note:4>"])
        // The settings have the last word, also about a grant.
        #expect(try await world.launch("x-note:6", again, answer: "always").output.status == 0)
        try world.desk.setAgent("open: {others: nothing}")
        world.agent.send(SIGHUP)
        _ = try await world.agent.line { $0.contains(#""event":"reloaded""#) }
        let forbidden = try await world.tv.relay("launch", "Desk", "x-note:7")
        #expect(forbidden.status != 0 && world.opened.count == 4, "\(forbidden.text)")
        again.send(SIGINT)
        _ = await again.finish()
    }

    @Test func personChoosesTheProgram() async throws {
        let world = try await World { world in
            for name in ["a", "b", "c"] { try world.install(name) }
            try world.setDefault("b.desktop")
        }
        let follower = try await world.follower()
        let (ask, _) = try await world.launch("x-note:1", follower, answer: "once")
        #expect((ask["handlers"] as? [[String: String]])?.map { $0["id"] } == ["b.desktop", "a.desktop", "c.desktop"])
        #expect(try await world.launch("x-note:2", follower, answer: "once", "--handler", "c.desktop").output.status == 0)
        // Only a program of the question can be chosen.
        let launch = try world.tv.start("launch", "Desk", "x-note:3")
        let line = try JSON.object(try await follower.line { $0.contains("x-note:3") })
        let id = try #require((line["asks"] as? [[String: Any]])?.first?["id"] as? String)
        for wrong in ["sh", "/bin/sh", "", "d.desktop", "A.desktop"] {
            let answer = try await AgentAPI.post(world.desk, "/v1/asks/\(id)", #"{"answer":"once","handler":"\#(wrong)"}"#)
            #expect(answer.status == 400, "\(wrong)")
        }
        #expect(try await AgentAPI.post(world.desk, "/v1/asks/\(id)", #"{"answer":"once","handler":1}"#).status == 400)
        #expect(try await AgentAPI.post(world.desk, "/v1/asks/\(id)", #"{"answer":"always","handler":"a.desktop"}"#).status == 200)
        #expect(await launch.finish().status == 0)
        // The grant remembers the choice, whatever becomes the default.
        try world.setDefault("c.desktop")
        #expect(try await world.tv.relay("launch", "Desk", "x-note:4").status == 0)
        #expect(world.opened == ["b 1 <x-note:1>", "c 1 <x-note:2>", "a 1 <x-note:3>", "a 1 <x-note:4>"])
        // Without that program there is a question again.
        try FileManager.default.removeItem(atPath: world.data + "/applications/a.desktop")
        let (next, _) = try await world.launch("x-note:5", follower, answer: "once")
        #expect((next["handlers"] as? [[String: String]])?.map { $0["id"] } == ["c.desktop", "b.desktop"])
        #expect(world.opened.last == "c 1 <x-note:5>")
        // Without any there is none.
        try FileManager.default.removeItem(atPath: world.data + "/applications")
        let none = try await world.tv.relay("launch", "Desk", "x-note:6")
        #expect(none.status == 6 && none.errorText.contains("no program there opens x-note: links"), "\(none.errorText)")
        follower.send(SIGINT)
        _ = await follower.finish()
    }

    /// Every byte of a URI arrives, in one argument and in no other.
    @Test func uriArrivesByteForByte() async throws {
        let world = try await World { try $0.install("a", exec: #"--profile "a  b" --uri=%u -- %%"#) }
        #expect(try await world.desk.relay("asks").status == 0)
        let follower = try await world.follower()
        #expect(try await world.launch("x-note:0", follower, answer: "always").output.status == 0)
        let uris = [
            "x-note:%20%22%27'%C3%A4%f0%9f%91%8b%00", "X-Note:$(id);&&*!~", "x-note:--help", "x-note:%u%U%f%c%25",
            "x-note:a'b'(c)[d]#e#f@%zz",
            "x-note:" + String(repeating: "%41", count: 2_000),
        ]
        for uri in uris { #expect(try await world.tv.relay("launch", "Desk", uri).status == 0, "\(uri)") }
        #expect(world.opened == (["x-note:0"] + uris).map { "a 5 <--profile> <a  b> <--uri=\($0)> <--> <%>" })
        follower.send(SIGINT)
        _ = await follower.finish()
    }

    /// A program that goes on outlives the agent, and has nothing of it.
    @Test func programIsIndependentOfTheAgent() async throws {
        var pid: pid_t?
        defer { if let pid { kill(pid, SIGKILL) } }
        let world = try await World { world in
            world.desk.variables["MY_SECRET"] = "secret"
            let list = "'\(world.data)/open'"
            let script = "ls -l /proc/$$/fd > \(list); env > '\(world.data)/environment'; echo $$ > '\(world.data)/pid'; exec sleep 600"
            try world.install("a", then: script)
        }
        let follower = try await world.follower()
        #expect(try await world.launch("x-note:1", follower, answer: "once").output.status == 0)
        follower.send(SIGINT)
        _ = await follower.finish()
        let program = try #require(lines(of: world.data + "/pid").first.flatMap { pid_t($0) })
        pid = program
        #expect(getsid(program) == program, "a session of its own")
        world.agent.send(SIGKILL)
        _ = await world.agent.finish()
        #expect(kill(program, 0) == 0)
        let files = lines(of: world.data + "/open").filter { $0.contains(" -> ") }
        #expect(files.count >= 3 && !files.contains { $0.contains("socket:") || $0.contains("sqlite") || $0.contains("pipe:") }, "\(files)")
        #expect(!files.contains { $0.contains(world.desk.home) }, "\(files)")
        let environment = lines(of: world.data + "/environment")
        #expect(environment.contains("DISPLAY=:99") && !environment.contains { $0.contains("secret") }, "\(environment)")
        // The next agent knows nothing of it, and works.
        let next = try await world.desk.agent()
        #expect(kill(program, 0) == 0)
        next.send(SIGTERM)
        _ = await next.finish()
        #expect(kill(program, 0) == 0)
    }

    /// What the program did decides, not that there was an answer.
    @Test func outcomeIsTrue() async throws {
        let world = try await World { world in
            try world.install("a", "x-bad", then: "echo went wrong >&2; exit 3")
            try world.install("b", "x-gone", more: "TryExec=/bin/sh")
        }
        let follower = try await world.follower()
        let (_, bad) = try await world.launch("x-bad:1", follower, answer: "once")
        #expect(bad.status != 0 && bad.text.contains("went wrong"), "\(bad.text)")
        // The program disappears while the person reads.
        let launch = try world.tv.start("launch", "Desk", "x-gone:1")
        let line = try JSON.object(try await follower.line { $0.contains("x-gone:1") })
        let id = try #require((line["asks"] as? [[String: Any]])?.first?["id"] as? String)
        try FileManager.default.removeItem(atPath: world.data + "/my b")
        #expect(try await world.desk.relay("asks", "answer", id, "once").status == 0)
        #expect(await launch.finish().status != 0)
        #expect(world.opened == ["a 1 <x-bad:1>"])
        follower.send(SIGINT)
        _ = await follower.finish()
    }

    /// What is never offered is not declared, so that nobody is asked; the doctor and the agent say what is.
    @Test func dangerousSchemesAreNotOffered() async throws {
        let bad = ["file", "javascript", "data", "ssh", "https", "telnet", "apt", "man"]
        let world = try await World("open: {schemes: [mailto]}") { world in
            for (number, scheme) in bad.enumerated() { try world.install("bad\(number)", scheme) }
            try world.install("shell", "x-shell")
            try Data("[Desktop Entry]\nType=Application\nName=S\nExec=sh -c 'eval \"$0\"' %u\nMimeType=x-scheme-handler/x-shell\n".utf8)
                .write(to: URL(filePath: world.data + "/applications/shell.desktop"))
            try world.install("terminal", "x-terminal", more: "Terminal=true")
            try world.install("good", "x-note")
        }
        let follower = try await world.follower()
        for scheme in bad + ["x-shell", "x-terminal", "x-none"] {
            let uri = scheme == "https" ? "https://films.example/" : "\(scheme):1"
            #expect(try await world.tv.relay("launch", "Desk", uri).status != 0, "\(uri)")
        }
        #expect(try await world.launch("x-note:1", follower, answer: "once").output.status == 0)
        #expect(world.opened == ["good 1 <x-note:1>"])
        let checks = try #require(try await world.desk.relay("doctor", "--json").json["checks"] as? [[String: Any]])
        let links = checks.first { $0["name"] as? String == "links" }
        #expect(links?["message"] as? String == "others can open links here: mailto; after a question: x-note (Program GOOD)", "\(checks)")
        follower.send(SIGINT)
        _ = await follower.finish()
    }
}
#endif
