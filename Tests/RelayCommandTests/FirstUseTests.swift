// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

#if os(Linux)
/// A new person with two machines, by the commands of README.md, docs/cli.md and docs/https.md alone.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: TestMachine.isPossible, "root alone makes networks, with iproute2 and nftables, which scripts/test installs")
)
struct FirstUseTests {
    static let password = "correct horse battery"

    private static func text(_ process: RelayProcess, _ pattern: Regex<Substring>) async throws -> String {
        let line = try await process.line { $0.contains(pattern) }
        return String(try #require(line.firstMatch(of: pattern)).0)
    }

    /// Answers questions at a terminal.
    private static func answer(_ process: RelayProcess, _ answers: [(String, String)]) async throws {
        for (prompt, text) in answers {
            _ = try await process.line { $0.contains(prompt) }
            try process.write(text + "\n")
        }
    }

    /// The machine has no display, so a program records the opened URIs.
    private static func recordOpened(on machine: TestMachine) throws -> String {
        let opened = machine.directory.path + "/opened"
        let home = machine.directory.appending(path: ".local/state/device-relay")
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let command = try Settings.shell("printf '%s\\n' \"$2\" >> \"$1\"", opened, "{uri}")
        try Data("open:\n  command: \(command)\n".utf8).write(to: home.appending(path: "agent.yaml"))
        return opened
    }

    private static let signingIn = [("Name of your account", "anna"), ("Password of anna", password)]

    // MARK: The relay's own key

    @Test func passwordsConnectTwoMachinesWithoutABrowser() async throws {
        let lines = Project.machineLines(of: try Project.block(3, of: "README.md"))
        try #require(lines.map(\.machine) == ["A", "A", "A", "B", "B"])
        let (a, b) = try TestMachine.network()
        let opened = try Self.recordOpened(on: a)
        let relay = try a.start(lines[0].command)
        let setUp = try await Self.text(relay, /https:[^ ]+\/auth\/setup\?token=[^ ]+/)
        let address = try await Self.text(relay, /https:[^ ']+\/#relay=[a-z2-7]+/)
        #expect(address.hasPrefix("https://10.20.30.1:8080/"))

        let set = try a.startAtTerminal(lines[1].command)
        let typed = [("set-up link", setUp), ("New password", Self.password), ("The same once more", Self.password)]
        try await Self.answer(set, typed)
        let isSet = await set.finish()
        #expect(isSet.status == 0 && isSet.text.contains("Write these recovery codes down"), "\(isSet.text)")
        #expect(!isSet.text.contains(Self.password))

        // The address of the text stands for what the first start printed.
        func command(_ number: Int) throws -> String {
            let stands = "https://HOST:8080/#relay=ID"
            try #require(lines[number].command.contains(stands))
            #expect(!lines[number].command.contains("--allow-http"))
            return lines[number].command.replacing(stands, with: address)
        }
        let first = try a.startAtTerminal(try command(2))
        try await Self.answer(first, Self.signingIn)
        // No service manager runs, so the agent is installed for the next session alone.
        #expect(await first.finish().text.contains("signed in to the account anna"))
        let agent = try a.start("relay agent")
        _ = try await agent.line { $0.hasPrefix("ready") }
        let second = try b.startAtTerminal(try command(3))
        try await Self.answer(second, Self.signingIn)
        let signedIn = await second.finish()
        #expect(signedIn.status == 0, "\(signedIn.text)")
        let launched = try await b.run(lines[4].command)
        #expect(launched.status == 0, "\(launched.errorText)")
        #expect(RelayCommandTests.lines(of: opened) == ["https://www.swift.org"])
    }

    // MARK: First steps

    /// The dialogue of docs/cli.md, command by command, with what answers.
    private static func steps() throws -> [(command: String, answers: [String])] {
        try Project.block(1, of: "docs/cli.md").split(separator: "\n").reduce(into: []) { steps, line in
            if line.hasPrefix("$ ") {
                steps.append((String(line.dropFirst(2).replacing(/\s+#.*/, with: "")), []))
            } else if !steps.isEmpty {
                steps[steps.count - 1].answers.append(String(line))
            }
        }
    }

    /// A line without its values: ids, addresses, times, and the width of columns.
    private static func form(_ line: String) -> String {
        line.replacing(/\u{1B}\[[0-9;]*m/, with: "").replacing(/https:\/\/(relay\.example|10\.20\.30\.1:8080)/, with: "RELAY")
            .replacing(/(relay|invite)=[A-Za-z0-9_…-]+/) { "\($0.1)=VALUE" }
            .replacing(/\b[a-z2-7]{8}\b/, with: "ID").replacing(/Online for [0-9]+ [a-z]+/, with: "Online for TIME")
            .replacing(/[0-9-]{10} [0-9:]{8} [+-][0-9:]{5}/, with: "TIME").replacing(/\s+/, with: " ")
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    @Test func firstStepsOfTheCommandPageWork() async throws {
        let steps = try Self.steps()
        let commands = steps.map { $0.command.split(separator: " ").prefix(2).joined(separator: " ") }
        try #require(commands == ["relayd invite", "relay join", "relay devices", "relay launch"])
        let (a, b) = try TestMachine.network()
        let relay = try a.start("exec relayd serve --listen 10.20.30.1")
        _ = try await relay.line { $0.contains("#relay=") }
        let links = [try await a.run(steps[0].command), try await a.run(steps[0].command)].map(\.text)
        #expect(links.map(Self.form) == [Self.form(steps[0].answers.joined()), Self.form(steps[0].answers.joined())])
        let room = try await a.run("relay join --name 'Living room' --yes <<< '\(links[0])'")
        #expect(room.status == 0, "\(room.errorText)")
        let host = try a.start("exec relay host --json")
        _ = try await host.line()
        // What the page shows without an answer of the program is what the person types.
        let join = try b.startAtTerminal(steps[1].command)
        for answer in steps[1].answers {
            if answer == "y" {
                try join.write("y\n")
            } else {
                _ = try await join.line { Self.form($0) == Self.form(answer) }
                if answer.hasPrefix("Paste") { try join.write(links[1] + "\n") }
            }
        }
        #expect(await join.finish().status == 0)
        for step in steps.dropFirst(2) {
            let ended = try await b.run(step.command)
            #expect(ended.status == 0 && ended.output.map(Self.form) == step.answers.map(Self.form), "\(ended.text) \(ended.errorText)")
        }
        #expect(try JSON.object(try await host.line())["uri"] as? String == "https://films.example/42")
        for process in [host, relay] {
            process.send(SIGTERM)
            _ = await process.finish()
        }
    }

    // MARK: A certificate for browsers

    /// The blocks of docs/https.md.
    private struct Page {
        let internet: String
        let publish: String
        let home: String
        let serve: String
        let login: String
        let trust: String

        init() throws {
            let files = try Project.blocks("caddyfile", of: "docs/https.md")
            try #require(files.count == 2)
            (internet, home) = (files[0], files[1])
            (publish, serve) = (try Project.block(1, of: "docs/https.md"), try Project.block(2, of: "docs/https.md"))
            (login, trust) = (try Project.block(3, of: "docs/https.md"), try Project.block(4, of: "docs/https.md"))
        }
    }

    /// A machine with the relay and Caddy, and one with the authority's certificate, both as the page says.
    private struct Home {
        let a: TestMachine
        let b: TestMachine
        let caddy: RelayProcess
        let relay: RelayProcess
        let setUp: String

        init(_ page: Page) async throws {
            (a, b) = try TestMachine.network()
            for machine in [a, b] { try machine.name("10.20.30.1", "relay.home.arpa") }
            try Data(page.home.utf8).write(to: a.directory.appending(path: "Caddyfile"))
            caddy = try a.start("exec caddy run --config Caddyfile --adapter caddyfile")
            _ = try await caddy.errorLine { $0.contains("certificate obtained successfully") }
            relay = try a.start("exec \(page.serve)")
            setUp = try await FirstUseTests.text(relay, /https:[^ ]+\/auth\/setup\?token=[^ ]+/)
            try FileManager.default.copyItem(
                at: a.directory.appending(path: ".local/share/caddy/pki/authorities/local/root.crt"),
                to: b.directory.appending(path: "root.crt")
            )
        }

        func end() async {
            for process in [caddy, relay] {
                process.send(SIGTERM)
                _ = await process.finish()
            }
        }
    }

    static let hasCaddy = ["/usr/bin/caddy", "/usr/local/bin/caddy"].contains { FileManager.default.isExecutableFile(atPath: $0) }

    @Test(.enabled(if: FirstUseTests.hasCaddy, "needs Debian's package caddy")) func devicesWorkThroughCaddy() async throws {
        let page = try Page()
        let home = try await Home(page)
        // The link is for a browser now.
        #expect(home.setUp.hasPrefix("https://relay.home.arpa/auth/setup?token=") && !home.setUp.contains("#"))
        let input = "<<< $'\(home.setUp)\\n\(Self.password)'"
        let set = try await home.b.run("{ relay account password --ca-file root.crt\n} \(input)")
        #expect(set.status == 0, "\(set.errorText)")
        let login = try home.b.startAtTerminal(page.login.trimmingCharacters(in: .newlines) + " --password")
        try await Self.answer(login, Self.signingIn)
        let signedIn = await login.finish()
        #expect(signedIn.status == 0, "\(signedIn.text)")
        // The relay's machine joins by a link of the device, and opens what the device launches.
        let opened = try Self.recordOpened(on: home.a)
        try FileManager.default.copyItem(
            at: home.b.directory.appending(path: "root.crt"),
            to: home.a.directory.appending(path: "root.crt")
        )
        let invited = try await home.b.run("relay invite")
        let joined = try await home.a.run("{ relay join --name pc --ca-file root.crt\n} <<< '\(invited.text)'")
        #expect(joined.status == 0, "\(joined.errorText)")
        let agent = try home.a.start("relay agent")
        _ = try await agent.line { $0.hasPrefix("ready") }
        let launched = try await home.b.run("relay launch pc https://www.swift.org")
        #expect(launched.status == 0, "\(launched.errorText)")
        #expect(RelayCommandTests.lines(of: opened) == ["https://www.swift.org"])
        // The tunnel is a connection of its own.
        let ping = try await home.b.run("relay ping pc --count 1")
        #expect(ping.status == 0, "\(ping.text)")
        let doctor = try await home.b.run("relay doctor pc --json")
        let checks = try doctor.json["checks"] as? [[String: Any]] ?? []
        #expect(checks.allSatisfy { $0["status"] as? String != "failed" }, "\(doctor.text)")
        await home.end()
    }

    /// Stand for the system's: the package is installed, and a test has no service manager.
    private static let programs = [
        "apt-get": #"[ "$*" = 'install caddy' ] && command -v caddy"#,
        "systemctl": #"""
        [ "$*" = 'reload caddy' ] || exit 64
        # Foundation waits for a process until nothing has the descriptors that it has passed.
        for file in /proc/self/fd/*; do file=${file##*/}; [ "$file" -le 2 ] || eval "exec $file>&-"; done
        setsid caddy run --config Caddyfile --adapter caddyfile >caddy.log 2>&1 </dev/null &
        """#,
    ]

    @Test(.enabled(if: FirstUseTests.hasCaddy, "needs Debian's package caddy")) func linesForTheInternetWork() async throws {
        let page = try Page()
        let (a, b) = try TestMachine.network()
        for machine in [a, b] { try machine.name("10.20.30.1", "relay.example") }
        // No public authority knows this machine, so Caddy's own one stands for it.
        let own = "{\n\tlocal_certs\n\tskip_install_trust\n}\n"
        try Data((own + page.internet).utf8).write(to: a.directory.appending(path: "Caddyfile"))
        let folder = a.directory.appending(path: "bin")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        for (name, text) in Self.programs {
            try Data("#!/bin/bash\n\(text)\n".utf8).write(to: folder.appending(path: name))
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder.appending(path: name).path)
        }
        try Data("set -e\n\(page.publish.replacing("relayd serve", with: "exec relayd serve"))".utf8).write(
            to: a.directory.appending(path: "publish")
        )
        let relay = try a.start("PATH=$HOME/bin:$PATH exec bash publish")
        let setUp = try await Self.text(relay, /https:[^ ]+\/auth\/setup\?token=[^ ]+/)
        #expect(setUp.hasPrefix("https://relay.example/auth/setup?token=") && !setUp.contains("#"))
        try await wait { try await b.run("curl --silent --fail --insecure https://relay.example/healthz").status == 0 }
        try FileManager.default.copyItem(
            at: a.directory.appending(path: ".local/share/caddy/pki/authorities/local/root.crt"),
            to: b.directory.appending(path: "root.crt")
        )
        let trust = "export SSL_CERT_FILE=$HOME/root.crt"
        let set = try await b.run("\(trust); relay account password <<< $'\(setUp)\\n\(Self.password)'")
        #expect(set.status == 0, "\(set.errorText)")
        let login = try b.startAtTerminal("\(trust); relay login https://relay.example --password")
        try await Self.answer(login, Self.signingIn)
        let signedIn = await login.finish()
        #expect(signedIn.status == 0, "\(signedIn.text)")
        let about = try await b.run("\(trust); relay whoami --json")
        #expect(try about.json["relay"] as? String == "https://relay.example")
        relay.send(SIGTERM)
        _ = await relay.finish()
    }

    @Test(
        .enabled(
            if: FirstUseTests.hasCaddy && FileManager.default.isExecutableFile(atPath: "/usr/bin/certutil")
                && FileManager.default.isExecutableFile(atPath: "/usr/bin/chromedriver") && Project.python != nil,
            "needs Debian's packages caddy, libnss3-tools, chromium and chromium-driver; scripts/test sets DEVICE_RELAY_PYTHON"
        )
    ) func browserOpensTheSetUpLinkWithoutAWarning() async throws {
        let page = try Page()
        let home = try await Home(page)
        let python = try #require(Project.python).path
        let script = Project.root.appending(path: "scripts/first-use.py").path
        // Before the authority is trusted, the browser warns.
        let warned = try await home.b.run("'\(python)' '\(script)' '\(home.setUp)' warning")
        #expect(warned.status == 0, "\(warned.text) \(warned.errorText)")
        let trusted = try await home.b.run(page.trust)
        #expect(trusted.status == 0, "\(trusted.errorText)")
        let set = try await home.b.run("'\(python)' '\(script)' '\(home.setUp)' '\(Self.password)'")
        #expect(set.status == 0, "\(set.text) \(set.errorText)")
        let login = try home.b.startAtTerminal(page.login.trimmingCharacters(in: .newlines) + " --password")
        try await Self.answer(login, Self.signingIn)
        #expect(await login.finish().status == 0)
        await home.end()
    }
}
#endif
