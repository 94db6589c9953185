// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

#if os(Linux)
/// A new person with two machines, by the commands of README.md and docs/https.md alone.
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
        let block = try #require(try Project.blocks("text", of: "README.md").first { $0.contains("relay account password") })
        let lines = block.split(separator: "\n").compactMap { line in line.first.map { (machine: $0, command: String(line.dropFirst(3))) } }
        try #require(String(lines.map(\.machine)) == "AAABB")
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

    // MARK: A certificate for browsers

    /// The blocks of docs/https.md.
    private struct Page {
        let internet: String
        let home: String
        let serve: String
        let login: String
        let trust: String

        init() throws {
            let files = try Project.blocks("caddyfile", of: "docs/https.md")
            let commands = try Project.blocks("sh", of: "docs/https.md")
            try #require(files.count == 2 && commands.count == 3)
            (internet, home) = (files[0], files[1])
            (serve, login, trust) = (commands[0], commands[1], commands[2])
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
        // The file for the Internet is valid, too.
        try Data(page.internet.utf8).write(to: home.a.directory.appending(path: "Caddyfile"))
        let valid = try await home.a.run("caddy validate --config Caddyfile --adapter caddyfile")
        #expect(valid.status == 0, "\(valid.errorText)")
        await home.end()
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
