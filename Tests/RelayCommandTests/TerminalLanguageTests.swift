// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// What both programs show a person, in the person's language.
@Suite(.serialized, .timeLimit(.minutes(10))) struct TerminalLanguageTests {
    private static let german = ["LC_ALL": "de_DE.UTF-8"]
    private static let made = ["LC_ALL": "en_XA.UTF-8"]

    private static func relayd(_ arguments: [String], _ variables: [String: String]) async throws -> CommandOutput {
        let process = RelaydProcess.process(arguments)
        process.environment = ["PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TZ": "UTC"].merging(variables) { $1 }
        let ended = try await ProcessRun.run(process, input: "")
        let lines = { (text: String) in text.split(separator: "\n").map(String.init) }
        return CommandOutput(status: ended.status, output: lines(ended.output), error: lines(ended.error))
    }

    @Test func aGermanSeesGerman() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host()
        desk.variables = Self.german
        let devices = try await desk.relay("devices", "--all")
        #expect(devices.output.first?.hasPrefix("NAME") == true && devices.text.contains("Online seit"), "\(devices.text)")
        #expect(devices.text.contains("ENDPUNKT"), "\(devices.text)")
        let launch = try await desk.relay("launch", "TV", "https://films.example/42")
        #expect(launch.text.hasPrefix("Auf TV geöffnet von org.device-relay.cli"), "\(launch.text)")
        let missing = try await desk.relay("launch", "Radio", "https://films.example/42")
        #expect(missing.status == 4)
        #expect(missing.errorText == "relay: es gibt kein Gerät 'Radio': siehe `relay devices --all`", "\(missing.errorText)")
        let wrong = try await desk.relay("ping", "TV", "--count", "0")
        #expect(wrong.status == 2)
        #expect(wrong.errorText.hasPrefix("Fehler: --count muss mindestens 1 sein."), "\(wrong.errorText)")
        #expect(wrong.errorText.contains("Verwendung: relay ping"), "\(wrong.errorText)")
        let doctor = try await desk.relay("doctor")
        #expect(doctor.text.contains("ok       account    dieses Gerät ist 'Desk': Konto Anna bei"), "\(doctor.text)")
        let help = try await desk.run(["devices", "--help"], withHome: false)
        #expect(help.text.hasPrefix("ÜBERSICHT: ") && help.text.contains("VERWENDUNG: relay devices"), "\(help.text)")
        host.send(SIGKILL)
        _ = await host.finish()

        let directory = ["--data-directory", account.relay.directory.path]
        let accounts = try await Self.relayd(["account", "list"] + directory, Self.german)
        #expect(accounts.text.contains("Anna  2 Endpunkte"), "\(accounts.text)")
        let checks = try await Self.relayd(["doctor"] + directory, Self.german)
        #expect(checks.text.contains("kein Ordner mit Sicherungen ist genannt"), "\(checks.text)")
        let unknown = try await Self.relayd(["account", "rename", "Otto", "Hans"] + directory, Self.german)
        #expect(unknown.status == 1)
        #expect(unknown.errorText == "relayd: es gibt kein solches Konto: siehe `relayd account list`", "\(unknown.errorText)")
    }

    /// JSON, and what else programs read, is the same in each language.
    @Test func whatProgramsReadIsEnglish() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let directory = ["--data-directory", account.relay.directory.path]
        for arguments in [["whoami"], ["devices"], ["commands"], ["launch", "Radio", "x:y"], ["launch"], ["profiles"], ["token", "list"]] {
            let outputs = [try await desk.run(arguments + ["--json"]), try await desk.run(arguments + ["--json"], adding: Self.german)]
            #expect(outputs[0].text == outputs[1].text && outputs[0].errorText == outputs[1].errorText, "\(arguments)")
            #expect(outputs[0].status == outputs[1].status && !outputs[0].text.isEmpty, "\(arguments)")
        }
        for arguments in [["account", "list"], ["endpoint", "list"], ["account", "key", "list"], ["limits"]] {
            let outputs = [
                try await Self.relayd(arguments + ["--json"] + directory, [:]),
                try await Self.relayd(arguments + ["--json"] + directory, Self.german),
            ]
            #expect(outputs[0].text == outputs[1].text && outputs[0].status == 0 && !outputs[0].text.isEmpty, "\(arguments)")
        }
        for arguments in [["completions", "bash"], ["--experimental-dump-help"]] {
            let texts = [
                try await desk.run(arguments, withHome: false).text,
                try await desk.run(arguments, withHome: false, adding: Self.german).text,
            ]
            #expect(texts[0] == texts[1] && texts[0].count > 1_000, "\(arguments)")
        }
    }

    /// A command of a program, as its help describes it to programs.
    private struct Command: Decodable {
        var commandName: String
        var subcommands: [Command]?

        var paths: [[String]] { [[]] + (subcommands ?? []).flatMap { command in command.paths.map { [command.commandName] + $0 } } }
    }

    private struct Description: Decodable {
        var command: Command
    }

    private static func commands(_ description: CommandOutput) throws -> [[String]] {
        try JSONDecoder().decode(Description.self, from: Data(description.text.utf8)).command.paths.filter { !$0.contains("help") }
    }

    @Test func forgottenWordsAreFound() {
        #expect(
            ForgottenWords.words(in: "[!!! ñöŧ ƒöřğöŧŧëñ 'a name' ~~~ !!!] Forgotten, Desk\n  words", besides: ["Desk"]) == [
                "Forgotten", "words",
            ]
        )
        #expect(
            ForgottenWords.words(in: "relay: [!!! ňö !!!] --option /a/path http://x.example `code` <value> 5 s", besides: ["relay"]) == []
        )
    }

    @Test func noHelpIsForgotten() async throws {
        let device = try TestDevice()
        let names = [
            "relay": try Self.commands(try await device.run(["--experimental-dump-help"], withHome: false)),
            "relayd": try Self.commands(try await Self.relayd(["--experimental-dump-help"], [:])),
        ]
        let known = Set(names.values.joined().joined()).union(["relay", "relayd", "serve"]).union(Self.values)
        var random = SeededGenerator(seed: Sweep.seed)
        for (program, commands) in names.sorted(by: { $0.key < $1.key }) {
            #expect(commands.count > 30)
            // Each run looks at some of them.
            for command in commands.shuffled(using: &random).prefix(Sweep.count(6, full: .max)) {
                let arguments = command + ["--help"]
                let help =
                    program == "relay"
                    ? try await device.run(arguments, withHome: false, adding: Self.made) : try await Self.relayd(arguments, Self.made)
                #expect(help.status == 0 && help.text.contains("[!!! ÜŠÁĞË: "))
                let forgotten = ForgottenWords.words(in: help.text, besides: known)
                #expect(forgotten == [], "\(program) \(command): \(help.text)")
            }
        }
    }

    /// Values in helps.
    private static let values: Set<String> = [
        "devices", "read", "launch", "call", "commands", "files", "share", "asks", "grants", "audit", "webhooks", "android", "ios", "linux",
        "macos",
        "web", "apns", "fcm", "wns", "webPush", "apnsSandbox", "fcmToken", "wnsPackageToken", "wnsAppSDKToken", "logout", "launched",
        "declined",
        "unsupported", "once", "always", "no", "bash", "zsh", "fish", "relay", "host",
    ]

    /// Names of the tests, and codes: those of checks and their outcomes, kinds, scopes, actions and the names of programs.
    private static let codes: Set<String> = values.union([
        "Anna", "Desk", "TV", "relay", "relayd", "me", "ok", "warning", "failed", "skipped", "desktop", "linux", "default", "org", "cli",
        "account", "identity", "clock", "tunnel", "login", "presence", "mailbox", "links", "nearby", "data", "database", "disk", "ports",
        "url",
        "proxy", "issuer", "push", "backup", "certificate", "signing", "device", "https", "http", "agent", "host", "settings", "ready",
        "owner",
        "scheme", "gopher", "transfer", "Device", "Relay", "cat", "echo", "ping", "home", "command", "lock", "storage", "a",
        // Of the audit.
        "token", "add", "added", "remove", "removed", "grant", "granted", "notFound", "nameTaken", "notAsked", "launched", "KiB", "MiB",
        "GiB", "kB", "ss", "FOLDER",
    ])

    @Test func nothingThatRelayPrintsIsForgotten() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let agent = try await tv.agent(
            "{open: {command: [/bin/true]}, services: {cat: {command: [/bin/cat]}}, files: {folder: \(tv.home)}}"
        )
        // A short id may have no digit.
        var codes = Self.codes
        for device in [desk, tv] {
            let about = try await device.relay("whoami", "--json").json
            for key in ["device", "endpoint", "relayID"] { codes.insert(String(try #require(about[key] as? String).prefix(8))) }
        }
        let known = codes
        desk.variables.merge(Self.made) { $1 }
        tv.variables.merge(Self.made) { $1 }
        func check(_ device: TestDevice, _ lines: [String]) async throws {
            for line in lines {
                let arguments = line.split(separator: " ").map(String.init)
                let output = try await device.run(arguments)
                let text = (output.output + output.error).joined(separator: "\n")
                #expect(text.contains("[!!!"), "\(line): \(text)")
                let forgotten = ForgottenWords.words(in: Self.withoutWords(text), besides: known.union(arguments))
                #expect(forgotten == [], "\(line): \(text)")
            }
        }
        try await check(
            desk,
            [
                "whoami", "devices", "devices --all", "doctor", "doctor TV", "launch TV https://films.example/", "launch TV gopher://x",
                "launch Radio x:y", "launch x:y TV", "launch", "launch TV", "launch TV x:y --ttl 0", "launch TV x:y --wait x", "commands",
                "cancel x",
                "call TV cat {\"a\":1} --x", "call TV dog", "call TV cat {", "call TV cat [1]", "call TV cat {\"a\":null}", "ping Radio",
                "ping TV --count 0",
                "fetch TV", "fetch TV nothing", "fetch TV agent.sqlite -o /nonexistent/x", "send nothing TV", "send TV", "nearby",
                "approve x", "approve TV",
                "revoke x", "verify Radio", "profiles", "profile use x", "sessions", "unpair x", "frob", "devices frob", "devices --frob",
                "login frob", "join frob", "join https://x", "host --scheme 1", "agent --poll 0", "console --print",
                "receive --once --visible", "grants remove",
            ]
        )
        try await check(
            tv,
            [
                "asks", "grants add --known --scheme gopher", "grants add --known --transfer", "grants", "grants remove x", "token list",
                "token add me --scope launch", "token add me --scope launch", "token add x --scope frob", "token list", "token remove me",
                "token remove me",
                "audit", "rename TV", "doctor",
            ]
        )
        agent.send(SIGKILL)
        _ = await agent.finish()
        try await check(
            desk,
            ["launch TV x:y --no-wait", "launch TV x:y --wait 0", "commands", "ping TV --count 1", "leave", "leave", "devices"]
        )
    }

    /// The words that two people compare are no text.
    private static func withoutWords(_ text: String) -> String { text.replacing(/[a-z]{5}(-[a-z]{5})+/, with: "") }

    @Test func nothingThatRelaydPrintsIsForgotten() async throws {
        let account = try await TestAccount()
        _ = try await account.device(named: "Desk")
        let backup = FileManager.default.temporaryDirectory.appending(path: "backup-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: backup) }
        let lines = [
            "account list", "account add Anna", "account rename x y", "account disable Anna", "account enable Anna", "account remove Anna",
            "account link Anna --issuer x --subject y", "account unlink Anna --issuer x --subject y", "account set-up x",
            "account import /nonexistent/x", "account key list", "account key remove x", "account frob", "endpoint list",
            "endpoint revoke x",
            "app list", "app add default --app x", "app add films.example --app android=x", "app verify films.example",
            "app remove films.example",
            "app remove x", "app credential remove x y", "resource-server add x", "resource-server remove x", "resource-server remove x",
            "node list",
            "node drain 1", "doctor", "backup \(backup)", "backup \(backup)", "restore \(backup)", "store check", "store copy",
            "serve --listen x", "serve --limit x", "serve --limit x=1", "serve --store x", "serve --certificate-file x", "frob", "invite x",
            "account remove Anna --yes",
        ]
        for line in lines {
            let arguments = line.split(separator: " ").map(String.init)
            let output = try await Self.relayd(arguments + ["--data-directory", account.relay.directory.path], Self.made)
            let text = (output.output + output.error).joined(separator: "\n")
            #expect(text.isEmpty || text.contains("[!!!") || line.hasPrefix("resource-server add"), "\(line): \(text)")
            let forgotten = ForgottenWords.words(in: text, besides: Self.codes.union(arguments).union(["list", "serve"]))
            #expect(forgotten == [], "\(line): \(text)")
        }
    }
}
