// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentTests {
    private static let app = "TV/org.device-relay.agent"

    /// A program that records the number of its arguments and each argument.
    private func recorder(_ file: String) throws -> String {
        try Settings.shell(#"out=$1; shift; printf '%s\n' "$#" "$@" >> "$out""#, file)
    }

    @Test func launchesAreOpenedWithoutAShell() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let opened = tv.directory.path + "/opened"
        let agent = try await tv.agent("open:\n  command: \(try recorder(opened))")
        for uri in ["https://films.example/?a='b'&c=$(id);d|e#f", "HTTP://films.example/%22%0A%20%00--help", "https://-rf*?(a)~!"] {
            try? FileManager.default.removeItem(atPath: opened)
            let isURI = !uri.contains("|")
            let output = try await desk.relay("launch", "TV", uri)
            #expect(output.status == (isURI ? 0 : 2), "\(uri): \(output.errorText)")
            guard isURI else { continue }
            #expect(lines(of: opened) == ["1", uri])
            let event = try JSON.object(try await agent.line())
            #expect(event["answer"] as? String == "launched")
            // Events never contain the URI.
            #expect(
                !"\(event)".contains("films.example")
                    && event["scheme"] as? String == uri.lowercased().split(separator: ":").first.map(String.init)
            )
        }
        for uri in ["https://a b", "https://a\nb", "https://\"a\""] {
            #expect(try await desk.relay("launch", "TV", uri).status == 2)
        }
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
    }

    @Test func schemesThatNeedAnAnswerAreAskedAboutOrDeclined() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let opened = tv.directory.path + "/opened"
        let open = "open:\n  schemes: [https, film]\n  ask: [file, mailto]\n  command: \(try recorder(opened))\n"
        let agent = try await tv.agent(open)
        #expect(try await desk.relay("launch", "TV", "film:42").status == 0)
        // The agent rejects schemes that it does not declare, by device and by app. It declines a scheme of `ask`, because there
        // is no terminal.
        for target in ["TV", Self.app] {
            for uri in ["javascript:alert(1)", "http://films.example/", "telnet://films.example"] {
                #expect(try await desk.relay("launch", target, uri).status == 4)
            }
            let declined = try await desk.relay("launch", target, "file:///etc/passwd", "--json")
            #expect(declined.status == 6)
            #expect(try code(declined) == "deniedByRemoteSystem")
            #expect(declined.text.contains("no person can be asked"))
        }
        // The prompt program approves everything except mail.
        let prompt = try Settings.shell(
            #"echo "$DEVICE_RELAY_DEVICE_NAME $DEVICE_RELAY_URI $2" > "$1"; case "$DEVICE_RELAY_URI" in mailto:*) exit 1; esac"#,
            tv.directory.path + "/asked",
            "{uri}"
        )
        try tv.setAgent(open + "  prompt: \(prompt)\n")
        agent.send(SIGHUP)
        _ = try await agent.line { $0.contains(#""event":"reloaded""#) }
        #expect(try await desk.relay("launch", Self.app, "file:///etc/passwd").status == 0)
        #expect(lines(of: tv.directory.path + "/asked") == ["Desk file:///etc/passwd file:///etc/passwd"])
        #expect(lines(of: opened) == ["1", "film:42", "1", "file:///etc/passwd"])
        #expect(try await desk.relay("launch", Self.app, "mailto:anna@films.example").status == 6)
        for scheme in ["javascript", "data", "vbscript"] {
            #expect(try await desk.relay("launch", Self.app, "\(scheme):alert(1)").status == 4)
        }
        #expect(lines(of: opened).count == 4)
    }

    @Test func failedOpeningIsReportedAndRunningProgramsContinue() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        // There is no display.
        let agent = try await tv.agent()
        func launch() async throws -> CommandOutput { try await desk.relay("launch", "TV", "https://films.example/1") }
        func change(_ command: String) async throws {
            try tv.setAgent("open:\n  command: \(command)")
            agent.send(SIGHUP)
            _ = try await agent.line { $0.contains(#""event":"reloaded""#) }
        }
        let hidden = try await launch()
        #expect(hidden.status == 1 && hidden.errorText.contains("display"))
        try await change(try Settings.shell(#"yes x | head -n 9000 >&2; printf '\033[31mno such thing: %s\n' "$1" >&2; exit 4"#))
        let failed = try await launch()
        let event = try await agent.line { $0.contains("exit code 4") }
        #expect(event.contains(#""answer":"failed""#) && !event.contains("films.example"))
        #expect(failed.status == 1 && failed.errorText.contains("no such thing"))
        #expect(!failed.errorText.contains("\u{1B}") && failed.errorText.utf8.count < 2_048)
        try await change(try Settings.shell("kill -9 $$"))
        #expect(try await launch().errorText.contains("signal 9"))
        try await change(try Settings.list(["/no/such/program"]))
        #expect(try await launch().errorText.contains("/no/such/program is not there"))
        let file = tv.directory.path + "/pid"
        try await change(try Settings.shell(#"echo $$ > "$1"; exec sleep 600"#, file))
        #expect(try await launch().status == 0)
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
        try await wait { !lines(of: file).isEmpty }
        let pid = try #require(pid_t(lines(of: file)[0]))
        #expect(kill(pid, 0) == 0)
        kill(pid, SIGKILL)
    }

    @Test func settingsAreReloadedAndInvalidOnesChangeNothing() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let agent = try await tv.agent("services:\n  one: {command: [cat]}")
        #expect(try await desk.relay("call", Self.app, "one", #"{"a":1}"#).text == #"{"a":1}"#)
        try tv.setAgent("services:\n  one: {command: [cat]}\n  two: {comand: [cat]}")
        agent.send(SIGHUP)
        let problem = try await agent.errorLine { $0.contains("not changed") }
        #expect(problem.contains("line 3") && problem.contains("comand"))
        #expect(try await desk.relay("call", Self.app, "one").status == 0)
        try tv.setAgent("name: Living room\nservices:\n  two: {command: [cat]}")
        agent.send(SIGHUP)
        let event = try JSON.object(try await agent.line { $0.contains(#""event":"reloaded""#) })
        #expect(event["services"] as? [String] == ["ping", "echo", "two", "share"])
        #expect(try await desk.relay("call", Self.app, "two").status == 0)
        #expect(try await desk.relay("call", Self.app, "one").status == 4)
        #expect(try await desk.relay("devices").text.contains("Living room"))
        try FileManager.default.removeItem(atPath: tv.home + "/agent.yaml")
        agent.send(SIGHUP)
        _ = try await agent.line { $0.contains(#""event":"reloaded""#) }
        #expect(try await desk.relay("call", Self.app, "two").status == 4)
    }

    @Test(
        arguments: [
            ("nonsense: 1", "'nonsense' is not known"), ("open: 7", "'open'"), ("open:\n  schemes: [http", "line"),
            ("a: 1\na: 2", "line 1"),
            ("open:\n  schemes: ['no scheme']", "line 2"), ("open:\n  schemes: [javascript]", "never opened"),
            ("open:\n  ask: [http]", "'schemes' has too"), ("open: {ask: [data]}", "never opened"),
            ("open: {programs: 0}", "1 to 1000"), ("open: {newLaunchesPerMinute: -1}", "0 to 6000"),
            ("environment: [A=B]", "not the name of a variable"),
            ("open:\n  command: []", "must begin with a program"), ("open:\n  command: [sh, -c, 'x {uri}']", "{uri}"),
            ("files:\n  folder: /no/such", "line 2: 'files.folder' is not an existing folder"), ("files: {folder: here}", "absolute"),
            ("files: {}", "needs 'folder'"), ("services:\n  a: {}", "line 2: 'services.a' needs 'command'"),
            ("services: {ping: {command: [cat]}}", "built-in"), ("services: {a b: {command: [cat]}}", "not a valid service name"),
            ("services: {a: {command: [cat], mode: often}}", "one of once, lines"),
            ("services: {a: {command: [cat], timeout: 0}}", "0.1 to 3600"),
            ("services: {a: {command: [cat], timeout: long}}", "wrong type"),
            ("services: {a: {command: [cat], devices: [Anna]}}", "not a device's id"), ("name: \"\\e[31m\"", "not a valid display name"),
        ]
    )
    func invalidSettingsAreReportedWithTheirPlace(settings: String, says: String) async throws {
        let device = try TestDevice()
        let file = device.directory.path + "/settings.yaml"
        try Data(settings.utf8).write(to: URL(filePath: file))
        let output = try await device.relay("agent", "--config", file)
        #expect(output.status == 2)
        #expect(output.errorText.contains(file) && output.errorText.contains(says), "\(output.errorText)")
        let json = try await device.relay("agent", "--config", file, "--json")
        #expect(try code(json) == "configurationInvalid")
    }

    /// Its unit does not start it again then.
    @Test func anAgentWhoseFilesANewerVersionHasWrittenEndsForGood() async throws {
        let account = try await TestAccount()
        let device = try await account.device(named: "TV")
        let python = Process()
        python.executableURL = URL(filePath: "/usr/bin/env")
        python.arguments = [
            "python3", "-c",
            """
            import glob, sqlite3, sys
            for journal in glob.glob(sys.argv[1] + '/accounts/**/*.sqlite', recursive=True):
                database = sqlite3.connect(journal)
                print(database.execute("INSERT INTO grdb_migrations VALUES ('99 the future')").rowcount)
                database.commit()
            """, device.home,
        ]
        let changed = try await ProcessRun.run(python)
        try #require(changed.output == "1\n", "\(changed)")
        let ended = try await device.relay("agent")
        #expect(ended.status == 2 && ended.errorText.contains("was written by a newer version"), "\(ended.errorText)")
        let error = try await device.relay("devices", "--json").json["error"] as? [String: Any]
        #expect(error?["code"] as? String == "storageTooNew", "\(error ?? [:])")
    }

    @Test func settingsWritableByOthersAreRejected() async throws {
        let device = try TestDevice()
        let file = device.directory.path + "/settings.yaml"
        #expect(try await device.relay("agent", "--config", file).status == 2)
        try Data().write(to: URL(filePath: file))
        try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: file)
        #expect(try await device.relay("agent", "--config", file).errorText.contains("chmod"))
        try FileManager.default.setAttributes([.posixPermissions: 0o664], ofItemAtPath: file)
        #expect(try await device.relay("agent", "--config", file).errorText.contains("chmod"))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
        #expect(try await device.relay("agent", "--config", file).status == 3)
        // The directories of the file, of a link to it, and of the link's target are all checked.
        let (folder, link) = (device.directory.path + "/open", device.directory.path + "/link.yaml")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        try Data().write(to: URL(filePath: folder + "/settings.yaml"))
        try FileManager.default.createSymbolicLink(atPath: folder + "/link.yaml", withDestinationPath: file)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder + "/settings.yaml")
        for path in [folder + "/settings.yaml", folder + "/link.yaml", link] {
            #expect(try await device.relay("agent", "--config", path).status == 3)
        }
        for mode in [0o775, 0o757] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: folder)
            for path in [folder + "/settings.yaml", folder + "/link.yaml", link] {
                let output = try await device.relay("agent", "--config", path)
                #expect(output.status == 2 && output.errorText.contains("chmod go-w \(folder)"), "\(path): \(output.errorText)")
            }
        }
    }

    @Test func commandsWorkBesideTheAgent() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let opener = "open:\n  command: [\"true\"]"
        let (own, agent) = (try await desk.agent(opener), try await tv.agent(opener))
        let both = [
            try desk.start("launch", "TV", "https://films.example/1"), try desk.start("call", Self.app, "echo", #"{"a":1}"#, "--json"),
            try desk.start("devices"),
        ]
        for process in both { #expect(await process.finish().status == 0) }
        #expect(try await tv.relay("launch", "Desk", "https://films.example/2").status == 0)
        let twice = try await desk.relay("agent", "--json")
        #expect(twice.status == 1)
        #expect(try code(twice) == "endpointInUse")
        _ = (own, agent)
    }

    #if os(Linux)
    @Test(arguments: [("y\n", 0), ("n\n", 6), ("\n", 6)])
    func personAtTheTerminalIsAsked(answer: String, status: Int32) async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        try tv.setAgent("open:\n  ask: [mailto]\n  command: [\"true\"]")
        let agent = try tv.startAtTerminal("agent")
        _ = try await agent.line { $0.contains("ready") }
        let launch = try desk.start("launch", "TV", "mailto:anna@films.example")
        _ = try await agent.line { $0.contains(#"from  "Desk", a known device"#) }
        _ = try await agent.line { $0.contains(#"URI   "mailto:anna@films.example""#) }
        _ = try await agent.line { $0.contains("Open it? [y/N]") }
        try agent.write(answer)
        let output = await launch.finish()
        #expect(output.status == status, "\(output.errorText)")
    }
    #endif
}
