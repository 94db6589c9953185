// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// What both programs show a person, in the person's language.
@Suite(.serialized, .timeLimit(.minutes(10))) struct TerminalLanguageTests {
    private static let german = ["LC_ALL": "de_DE.UTF-8"]

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
            "relay": try await DescribedCommand.program("relay").names, "relayd": try await DescribedCommand.program("relayd").names,
        ]
        let words = names.values.joined().flatMap { $0.split(separator: " ").map(String.init) }
        let known = Set(words).union(Self.values)
        var random = SeededGenerator(seed: Sweep.seed)
        for (program, commands) in names.sorted(by: { $0.key < $1.key }) {
            #expect(commands.count > 30)
            // Each run looks at some of them.
            for command in commands.shuffled(using: &random).prefix(Sweep.count(6, full: .max)) {
                let arguments = command.split(separator: " ").dropFirst().map(String.init) + ["--help"]
                let help =
                    program == "relay"
                    ? try await device.run(arguments, withHome: false, adding: MadeLanguage.variables)
                    : try await Self.relayd(arguments, MadeLanguage.variables)
                #expect(help.status == 0 && help.text.contains("[!!! ÜŠÁĞË: "))
                let forgotten = ForgottenWords.words(in: help.text, besides: known)
                #expect(forgotten == [], "\(command): \(help.text)")
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
        "GiB", "MB", "kB", "ms", "ss", "FOLDER", "received", "systemctl", "enable",
        // Of a version.
        "commit", "unknown", "protocol",
    ])

    // MARK: relay

    private static func words(_ line: String) -> [String] { line.split(separator: " ").map(String.init) }

    @Test func nothingThatRelayPrintsIsForgotten() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let agent = try await tv.agent(
            "{open: {command: [/bin/true]}, services: {cat: {command: [/bin/cat]}}, files: {folder: \(tv.home)}}"
        )
        let language = try await MadeLanguage("relay", known: Self.codes)
        func check(_ device: TestDevice, _ lines: [String], says: Bool = true) async throws {
            for line in lines {
                let output = try await device.run(Self.words(line), adding: MadeLanguage.variables)
                language.look(at: output.text + "\n" + output.errorText, of: Self.words(line), says: says)
            }
        }
        try await check(
            desk,
            [
                "whoami", "devices", "devices --all", "doctor", "doctor TV", "launch TV https://films.example/", "launch TV gopher://x",
                "launch Radio x:y", "launch x:y TV", "launch", "launch TV", "launch TV x:y --ttl 0", "launch TV x:y --wait x", "commands",
                "cancel x", "call TV cat {\"a\":1} --x", "call TV dog", "call TV cat {", "call TV cat [1]", "call TV cat {\"a\":null}",
                "ping Radio", "ping TV --count 1", "ping TV --count 0", "watch --frob", "fetch TV", "fetch TV nothing",
                "fetch TV agent.sqlite -o /nonexistent/x", "send nothing TV", "send TV", "copy TV x", "copy Radio x", "paste TV",
                "paste Radio --print", "nearby", "approve x", "approve TV", "revoke x", "verify Radio", "profiles", "profile use x",
                "profile use ..", "sessions", "pair", "pair --enter", "pair --device x", "unpair x", "frob", "devices frob",
                "devices --frob", "login", "login frob", "login --password", "join", "join frob", "join https://x", "account link",
                "account link --issuer x", "account password", "host --scheme 1", "host --answer x", "agent --poll 0",
                "agent --config /nonexistent/x", "agent uninstall", "agent install", "agent uninstall", "console", "console --print",
                "receive --once --visible", "receive --visible", "asks", "asks answer x frob", "token list", "audit", "grants remove",
                "completions frob",
            ]
        )
        try await check(desk, ["invite", "call TV ping {}"], says: false)
        // The service manager reads it.
        let unit = try await desk.run(["agent", "install", "--print"], adding: MadeLanguage.variables)
        #expect(unit.text == (try await desk.relay("agent", "install", "--print")).text && unit.text.contains("[Service]"))
        try await check(
            tv,
            [
                "asks", "asks answer x once", "grants add --known --scheme gopher", "grants add --known --transfer", "grants",
                "grants remove x", "token list", "token add me --scope launch", "token add me --scope launch", "token add x --scope frob",
                "token list", "token remove me", "token remove me", "audit", "rename TV", "doctor", "console",
            ]
        )
        agent.send(SIGKILL)
        _ = await agent.finish()
        try await check(
            desk,
            ["launch TV x:y --no-wait", "launch TV x:y --wait 0", "commands", "ping TV --count 1", "leave", "leave", "devices"]
        )
        language.expectAllCommands()
    }

    #if os(Linux)
    private static let password = "correct horse battery"

    /// A person at a terminal, from the first device to the last.
    @Test func noDialogueOfRelayIsForgotten() async throws {
        let account = try await TestAccount()
        let origin = account.relay.origin
        let language = try await MadeLanguage("relay", known: Self.codes.union(["Laptop", "Phone", "Tablet", "hello"]))
        func begin(_ device: TestDevice, _ line: String) throws -> MadeDialogue {
            device.variables.merge(MadeLanguage.variables) { $1 }
            return MadeDialogue(try device.startAtTerminal(Self.words(line)), Self.words(line), language)
        }
        let (desk, laptop) = (try TestDevice(), try TestDevice())

        // Joining: an unclear answer, no, and yes.
        let refused = try begin(desk, "join --name Desk")
        try await refused.answers(["Paste the join link": try await account.link(), "shall this device join it?": "maybe"])
        try await refused.answers(["Answer y or n.": "n"])
        await refused.ends(6)
        let join = try begin(desk, "join --name Desk")
        try await join.answers(["Paste the join link": try await account.link(), "shall this device join it?": "y"])
        await join.ends()
        let broken = try begin(laptop, "join")
        try await broken.answers(["Paste the join link": "nonsense"])
        await broken.ends(2)

        // Passwords, and a recovery code.
        let set = try begin(laptop, "account password")
        try await set.answers([
            "Paste the set-up link": try await account.relay.run("account", "set-up", "Anna"), "Keep them?": "y",
            "New password": Self.password,
            "The same once more": "another thing", "New password,": Self.password, "The same once more:": Self.password,
        ])
        let shown = await set.ends()
        let code = try #require(shown.split(separator: "\n").last { $0.contains(/[A-Z]{4}(-[A-Z]{4}){3}/) }, "\(shown)")
        let login = try begin(laptop, "login \(origin) --password --name Laptop")
        try await login.answers([
            "Name of your account": "anna", "Password of": "something else", "Name of your account at": "anna", "Password of ": "",
            "Recovery code": code.trimmingCharacters(in: .whitespaces), "New password": Self.password, "The same once more": Self.password,
        ])
        await login.ends()

        // Sign-ins that are interrupted.
        for (method, text) in [("--device", "and enter the code"), ("--browser", "Sign in in your browser")] {
            let interrupted = try begin(try TestDevice(), "login \(origin) \(method)")
            try await interrupted.sees(text)
            try interrupted.interrupts()
            await interrupted.ends(nil)
        }

        // A host, and who watches it.
        let watch = try begin(desk, "watch")
        let host = try begin(laptop, "host --scheme https")
        try await host.sees("it ends with")
        try await watch.seesValue("+ Laptop")
        #expect(try await desk.relay("launch", "Laptop", "https://films.example/1").status == 0)
        try await host.seesValue("https://films.example/1")
        try host.interrupts()
        await host.ends(nil)
        try await watch.seesValue("- Laptop")
        try watch.interrupts()
        await watch.ends(nil)

        // An agent, its questions, and a device that is new.
        try laptop.setAgent("open: {command: [/bin/true], ask: [gopher], others: nothing}")
        let agent = try begin(laptop, "agent")
        try await agent.sees("answers")
        for answer in ["y", "n"] {
            let launching = try desk.start("launch", "Laptop", "gopher://\(answer).example", "--json")
            try await agent.answers(["Open it?": answer])
            _ = await launching.finish()
        }
        _ = try await account.device(named: "Phone")
        try await agent.answers(["Type approve, or nothing to leave it new.": "approve"])
        try await agent.sees("approved")
        try agent.interrupts()
        await agent.ends(nil)

        // What others send.
        let receive = try begin(laptop, "receive --ask --into \(laptop.directory.path)/in")
        try await receive.sees("receiving into")
        for answer in ["n", "y"] {
            let sending = try desk.start("send", "--text", "hello", "Laptop", "--json")
            try await receive.answers(["Take it?": answer])
            _ = await sending.finish()
        }
        try receive.interrupts()
        await receive.ends(nil)

        // Commands that ask, or say more than to a script.
        _ = try await account.device(named: "Tablet")
        for (line, question, answer, status) in [
            ("approve Tablet", "Approve it?", "n", 1), ("approve Tablet", "Approve it?", "y", 0), ("revoke Tablet", "Revoke", "n", 1),
            ("token add me --scope asks", "Make it?", "n", 1), ("revoke Tablet", "Revoke", "y", 0),
            ("verify Laptop", "Does it show the same words?", "n", 1),
        ] as [(String, String, String, Int32)] {
            let asking = try begin(desk, line)
            try await asking.answers([question: answer])
            await asking.ends(status)
        }
        for line in ["invite", "sessions", "devices --all", "doctor", "leave"] { await (try begin(desk, line)).ends(nil) }
    }

    /// People without an account, whose devices are on one network.
    @Test(.enabled(if: TestMachine.isPossible, "root alone makes networks, with iproute2, which scripts/test installs"))
    func nothingBetweenStrangersIsForgotten() async throws {
        let (hub, machines) = try TestMachine.bridge("anna", "bert")
        let (anna, bert) = (machines[0], machines[1])
        let language = try await MadeLanguage("relay", known: Self.codes.union(["anna", "bert", "photo", "jpg"]))
        func begin(_ machine: TestMachine, _ line: String) throws -> MadeDialogue {
            let process = try machine.startAtTerminal("stty cols 200; exec env LC_ALL=en_XA.UTF-8 relay \(line)")
            return MadeDialogue(process, Self.words(line), language)
        }
        try Data("photo".utf8).write(to: bert.directory.appending(path: "photo.jpg"))

        // One is visible to strangers.
        let visible = try begin(anna, "receive --visible --into Photos")
        try await visible.sees("is visible to everyone")
        await (try begin(bert, "nearby")).ends()
        for (answers, status) in [(("n", nil), 6), (("y", "n"), 6), (("y", "y"), 0)] as [((String, String?), Int32)] {
            let send = try begin(bert, "send photo.jpg anna")
            try await send.answers(["Send to it?": answers.0])
            if let answer = answers.1 { try await visible.answers(["Take it?": answer]) }
            await send.ends(status)
        }
        try visible.interrupts()
        await visible.ends(nil)

        // Both are paired, after a wrong code.
        let pair = try begin(anna, "pair")
        try await pair.sees("is visible on this network")
        let wrong = try begin(bert, "pair --enter")
        try await wrong.answers(["Type the eight digits": "12 34"])
        await wrong.ends(2)
        let failed = try begin(bert, "pair --enter")
        try await failed.answers(["Type the eight digits": "0000 0000"])
        await failed.ends(6)
        try await pair.sees("There is a new one")
        let code = try await pair.value(/[0-9]{4} [0-9]{4}/)
        let enter = try begin(bert, "pair --enter")
        try await enter.answers(["Type the eight digits": code])
        await enter.ends()
        await pair.ends()
        for line in ["devices", "devices --all", "whoami", "invite", "revoke bert", "unpair bert", "unpair bert"] {
            await (try begin(anna, line)).ends(nil)
        }
        _ = hub
    }
    #endif

    // MARK: relayd

    @Test func nothingThatRelaydPrintsIsForgotten() async throws {
        let account = try await TestAccount()
        _ = try await account.device(named: "Desk")
        let folder = FileManager.default.temporaryDirectory.appending(path: "backup-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder + "/kept", withIntermediateDirectories: true)
        for (name, text) in [
            ("wrong.csv", "a,b\nEmil,1\n"), ("damaged", String(repeating: "x", count: 2_000)),
            ("secret", "x"),
        ] { try Data(text.utf8).write(to: URL(filePath: "\(folder)/\(name)")) }
        let language = try await MadeLanguage("relayd", known: Self.codes.union(["Bert", "Emil", "Karl", "mkdir", "df", "name"]))
        // Names of limits, which are those of JSON.
        let limits = try JSON.object(try await Self.relayd(["limits", "--json"], [:]).text)
        language.known.formUnion(limits.keys)
        func check(_ lines: [String], says: Bool = true, directory: String? = account.relay.directory.path) async throws {
            for line in lines {
                let words = Self.words(line.replacing("FOLDER", with: folder))
                let output = try await Self.relayd(words + (directory.map { ["--data-directory", $0] } ?? []), MadeLanguage.variables)
                language.look(at: output.text + "\n" + output.errorText, of: words, says: says)
            }
        }
        try await check(
            [
                "account list", "account add Anna", "account rename x y", "account disable Anna", "account enable Anna",
                "account remove Anna",
                "account link Anna --issuer x --subject y", "account unlink Anna --issuer x --subject y", "account set-up x",
                "account quota Anna", "account quota Anna --set endpointsPerAccount=3", "account quota Anna --set x=3",
                "account quota Anna --set endpointsPerAccount=x", "account quota Anna --reset all", "account quota x",
                "account export x", "account import /nonexistent/x", "account import FOLDER/wrong.csv", "account key list",
                "account key remove x", "account frob", "endpoint list", "endpoint revoke x", "token revoke",
                "app list", "app add default --app x", "app add films.example --app android=org.example.films",
                "app add films.example --app android=x", "app verify films.example",
                "app credential apns films.example --signing-key /nonexistent/x --key-id AAAAAAAAAA --team-id AAAAAAAAAA --topic org.example",
                "app credential fcm films.example --service-account FOLDER/damaged", "app credential wns films.example",
                "app credential wns films.example --secret-file FOLDER/secret --tenant x --client-id y",
                "app credential web-push films.example --contact x", "app credential web-push films.example --contact mailto:a@example.org",
                "app list", "app credential remove films.example x", "app credential remove x y", "app credential",
                "app remove films.example --app android=x", "app remove x",
                "resource-server remove x", "resource-server frob",
                "node list", "node drain 1", "doctor", "doctor --backups /nonexistent/x", "backup FOLDER/one", "backup FOLDER/one",
                "backup make --keep 2 FOLDER/kept", "backup --keep 1 FOLDER/kept", "backup --keep 0 FOLDER/kept",
                "backup --keep 1 FOLDER/one",
                "restore FOLDER/one", "store check", "store copy", "store copy --to x", "store restored", "store finish-upgrade",
                "limits frob",
                "serve --listen x", "serve --limit x", "serve --limit x=1", "serve --store x", "serve --certificate-file x", "frob",
                "invite x",
                "account remove Anna --yes",
            ]
        )
        // These print values alone, for other programs too.
        try await check(
            [
                "account add Karl", "account set-up Karl", "invite Karl", "resource-server add default",
                "resource-server list", "app remove films.example",
            ],
            says: false
        )
        try await check(["limits"])
        try await check(
            [
                "backup check FOLDER/one", "backup check FOLDER/kept", "backup check FOLDER/damaged", "backup check FOLDER/x",
                "demo --relay /x", "demo opened",
            ],
            directory: nil
        )
        _ = try await account.relay.stop()
        try await check(["restore FOLDER/one", "restore FOLDER/damaged --force", "restore FOLDER/one --force", "account list", "doctor"])
        language.expectAllCommands()
    }

    #if os(Linux)
    @Test func noDialogueOfRelaydIsForgotten() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "relayd-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let language = try await MadeLanguage("relayd", known: Self.codes.union(["anna", "Berta", "ready", "at"]))
        // What the demo says of its devices and commands.
        language.known.formUnion(["phone", "pc", "Phone", "PC", "Living", "room", "Rome", "photo", "jpg", "kill", "AGENT", "RELAYD"])
        language.known.formUnion(try await DescribedCommand.program("relay").names.flatMap(Self.words))
        func begin(_ line: String, in directory: String?) throws -> MadeDialogue {
            let words = [RelaydProcess.executable.path] + Self.words(line) + (directory.map { ["--data-directory", $0] } ?? [])
            let process = try RelayProcess(
                ["-qefc", words.map { "'\($0)'" }.joined(separator: " "), "/dev/null"],
                executable: URL(filePath: "/usr/bin/script"),
                environment: ["PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "USER": "anna", "SHELL": "/bin/sh", "TZ": "UTC"].merging(
                    MadeLanguage.variables
                ) { $1 },
                hasInput: true
            )
            return MadeDialogue(process, Self.words(line), language)
        }
        let serve = try begin("serve --listen 127.0.0.1:\(try FreePort.take()) --tunnel-listen off --log-level error", in: directory)
        try await serve.seesValue("ready at ")
        let passwords: KeyValuePairs = ["it is not shown": Self.password, "The same once more": Self.password]
        let add = try begin("account add Berta --password", in: directory)
        try await add.answers(passwords)
        await add.ends()
        let different = try begin("account add Berta --password", in: directory)
        try await different.answers(["it is not shown": Self.password, "The same once more": "another thing"])
        await different.ends(2)
        for (answer, status) in [("no", 1), ("yes", 0)] as [(String, Int32)] {
            let remove = try begin("account remove Berta", in: directory)
            try await remove.answers(["Type yes to go on": answer])
            await remove.ends(status == 0 ? 0 : nil)
        }
        let revoke = try begin("token revoke", in: directory)
        try await revoke.answers(["Paste the token": "nonsense"])
        await revoke.ends(nil)
        try serve.interrupts()
        await serve.ends(nil)
        // It runs both programs, and all that they say.
        let demo = try begin("demo", in: nil)
        await demo.ends()
    }
    #endif
}
