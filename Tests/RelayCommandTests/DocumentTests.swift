// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import RelayAgent
import RelayTesting
import Testing

@testable import relay

@Suite(.serialized, .timeLimit(.minutes(10))) struct DocumentTests {
    let document: CommandLineDocument

    init() throws { document = try CommandLineDocument() }

    @Test func everyCommandIsDocumented() {
        let commands = Relay.configuration.subcommands.map { $0._commandName }
        #expect(commands == document.commands)
    }

    @Test func exitCodesMatchTheDocumentation() {
        func check<Code: CustomStringConvertible>(_ table: [(code: Code, status: RelayAgent.ExitStatus)], _ area: String) {
            var codes: [String: Int32] = [:]
            for (code, status) in table where status != .failed { codes["\(code)"] = status.rawValue }
            #expect(codes == document.exitCodes(of: area), "\(area)")
            #expect(Set(table.map { "\($0.code)" }).count == table.count, "\(area)")
        }
        check(RelayAgent.ExitStatus.launching, "launch")
        check(RelayAgent.ExitStatus.calling, "call")
        check(RelayAgent.ExitStatus.sharing, "send")
        check(RelayAgent.ExitStatus.pairing, "pair")
        check(RelayAgent.ExitStatus.accounts, "account")
        check(RelayAgent.ExitStatus.connections, "connection")
        check(RelayAgent.ExitStatus.publishing, "publish")
        check(RelayAgent.ExitStatus.platform, "platform")
    }

    /// The checked objects, for the validator.
    private final class Printed {
        var objects: [(name: String, text: String)] = []
    }

    private let printed = Printed()

    /// The name of an object's definition in the schema.
    private static func definition(_ name: String) -> String {
        name.filter { $0 != "`" && $0 != "*" }.replacing(" ", with: "-")
    }

    @Test func schemaHasTheDocumentedFields() throws {
        let definitions = try JSONSchema.definitions()
        #expect(Set(definitions.keys) == Set(document.objects.map(Self.definition)))
        for name in document.objects {
            let fields = try #require(document.fields(of: name))
            let definition = try #require(definitions[Self.definition(name)], "\(name)")
            let version: Set<String> = name.hasPrefix("*") ? [] : ["schema"]
            #expect(definition.required == fields.required.union(version), "\(name)")
            #expect(Set(definition.properties.keys) == fields.required.union(fields.optional).union(version), "\(name)")
        }
    }

    @Test(.enabled(if: Project.python != nil, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has jsonschema"))
    func schemaRejectsInvalidObjects() async throws {
        let wrong = [
            ("whoami", #"{"schema":1}"#), ("invite", #"{"schema":2,"link":"x","expiresIn":1}"#),
            ("error", #"{"schema":1,"error":{"code":"x","message":"y","exit":0}}"#),
            ("leave", #"{"schema":1,"relay":"https://x","revoked":true,"endpoint":"short"}"#),
        ]
        for object in wrong {
            #expect(try await !JSONSchema.faults([object], python: try #require(Project.python)).isEmpty, "\(object)")
        }
        let right = ("leave", #"{"schema":1,"relay":"https://x","revoked":true,"more":1}"#)
        #expect(try await JSONSchema.faults([right], python: try #require(Project.python)) == [])
    }

    /// Checks an object and its nested objects against their rows.
    private func check(_ object: [String: Any], _ name: String, isNested: Bool = false) throws {
        if !isNested {
            let text = try JSONSerialization.data(withJSONObject: object)
            printed.objects.append((Self.definition(name), String(decoding: text, as: UTF8.self)))
        }
        let fields = try #require(document.fields(of: name), "\(name)")
        var keys = Set(object.keys)
        if !isNested {
            #expect(object["schema"] as? Int == 1, "\(name)")
            keys.remove("schema")
        }
        #expect(fields.required.subtracting(keys).isEmpty, "\(name) lacks some of \(fields.required)")
        #expect(keys.subtracting(fields.required).subtracting(fields.optional).isEmpty, "\(name) has more than is documented: \(keys)")
        for (key, value) in object {
            guard let kind = Self.nested[name]?[key] else { continue }
            let all = value as? [[String: Any]] ?? (value as? [String: Any]).map { [$0] } ?? []
            for one in all { try check(one, kind, isNested: true) }
        }
    }

    private static let nested = [
        "`devices`": ["devices": "*device*", "endpoints": "*endpoint*"], "`watch`": ["device": "*device*", "endpoint": "*endpoint*"],
        "`commands`": ["commands": "*command*"], "`approve`": ["approved": "*endpoint*"], "`revoke`": ["revoked": "*endpoint*"],
        "`launch`": ["attested": "*attestation*"], "*command*": ["attested": "*attestation*"], "*failure*": ["attested": "*attestation*"],
        "`host`": ["from": "*caller*"], "`receive`": ["from": "*caller*"], "`agent`": ["from": "*caller*"],
        "`fetch`": ["entries": "*entry*"], "`doctor`": ["checks": "*check*"], "error": ["error": "*failure*"],
        "`token add`": ["token": "*token*"], "`token list`": ["tokens": "*token*"], "`audit`": ["entries": "*action*"],
        "*device*": ["apps": "*app*"], "`profiles`": ["profiles": "*profile*"],
    ]

    @Test func everyCommandPrintsTheDocumentedJSON() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try TestDevice(), try TestDevice())
        var seen: Set<String> = []
        func expect(_ name: String, _ output: CommandOutput) throws {
            #expect(output.status == 0, "\(name): \(output.text)")
            try check(try output.json, "`\(name)`")
            seen.insert(name)
        }
        try expect("join", try await desk.relay("join", try await account.link(), "--name", "Desk", "--json"))
        try expect("whoami", try await desk.relay("whoami", "--json"))
        try expect("rename", try await desk.relay("rename", "Desk 2", "--json"))
        try expect("invite", try await desk.relay("invite", "--json"))
        try expect("profiles", try await desk.relay("profiles", "--json"))
        try expect("sessions", try await desk.relay("sessions", "--json"))
        try check(try await desk.relay("profile", "use", "default", "--json").json, "`profile use`")
        let browser = SignInBrowser(origin: account.relay.origin)
        try await browser.setUp(try await account.relay.run("account", "set-up", "Anna"))
        let radio = try TestDevice()
        let login = try radio.start("login", account.relay.origin, "--device", "--name", "Radio", "--json", "--yes")
        let code = try JSON.object(try await login.line())
        try check(code, "`login`")
        let page = try #require((code["url"] as? String).flatMap { URL(string: $0) })
        try await browser.decide(device: page, code: try #require(code["userCode"] as? String))
        try expect("login", await login.finish())
        _ = try await desk.relay("devices", "--json")
        _ = try await tv.relay("join", try await account.link(), "--name", "TV")
        let watch = try desk.start("watch", "--json")
        _ = try await watch.line { $0.contains("enumerationCompleted") }
        let host = try tv.start("host", "--json")
        try check(try JSON.object(try await host.line()), "`host`")
        let added = try JSON.object(try await watch.line())
        try check(added, "`watch`")
        seen.insert("watch")
        let device = try #require(try await tv.relay("whoami", "--json").json["device"] as? String)
        try expect("verify", try await desk.relay("verify", device, "--json"))
        try expect("approve", try await desk.relay("approve", device, "--json"))
        try expect("launch", try await desk.relay("launch", "TV", "https://films.example/1", "--json"))
        try check(try JSON.object(try await host.line()), "`host`")
        seen.insert("host")
        try expect("devices", try await desk.relay("devices", "--all", "--json"))
        try expect("call", try await desk.relay("call", "TV/org.device-relay.cli", "ping", "--json"))
        let ping = try await desk.relay("ping", "TV", "--count", "1", "--json")
        #expect(ping.output.count == 2)
        for line in ping.output { try check(try JSON.object(line), "`ping`") }
        seen.insert("ping")
        host.send(SIGTERM)
        _ = await host.finish()
        try Data("hello".utf8).write(to: tv.directory.appending(path: "hello.txt"))
        try tv.setAgent("open:\n  command: [\"true\"]\nfiles:\n  folder: \(tv.directory.path)")
        let agent = try tv.start("agent", "--json")
        try check(try JSON.object(try await agent.line()), "`agent`")
        _ = try await desk.relay("launch", "TV", "https://films.example/1")
        try check(try JSON.object(try await agent.line()), "`agent`")
        seen.insert("agent")
        try expect("fetch", try await desk.relay("fetch", "TV", "--json"))
        try expect("fetch", try await desk.relay("fetch", "TV", "hello.txt", "-o", desk.directory.path, "--json"))
        let inbox = tv.directory.path + "/inbox"
        try tv.setAgent("receive:\n  folder: \(inbox)")
        agent.send(SIGHUP)
        try check(try JSON.object(try await agent.line()), "`agent`")
        try expect("send", try await desk.relay("send", desk.directory.path + "/hello.txt", "TV", "--json"))
        try check(try JSON.object(try await agent.line()), "`agent`")
        try expect("doctor", try await desk.relay("doctor", "TV", "--json"))
        try check(try await tv.relay("agent", "install", "--print", "--json").json, "`agent install`")
        try check(try await tv.relay("token", "add", "player", "--scope", "launch", "--scheme", "https", "--json").json, "`token add`")
        try check(try await tv.relay("token", "list", "--json").json, "`token list`")
        try check(try await tv.relay("token", "remove", "player", "--json").json, "`token remove`")
        try expect("audit", try await tv.relay("audit", "--json"))
        try expect("console", try await tv.relay("console", "--json"))
        try expect("asks", try await tv.relay("asks", "--json"))
        try expect("grants", try await tv.relay("grants", "--json"))
        agent.send(SIGTERM)
        _ = await agent.finish()
        let receiver = try tv.start("receive", "--into", inbox, "--once", "--json")
        try check(try JSON.object(try await receiver.line()), "`receive`")
        try expect("send", try await desk.relay("send", "--text", "hello", "TV", "--json"))
        try check(try JSON.object(try await receiver.line()), "`receive`")
        _ = await receiver.finish()
        seen.insert("receive")
        let sent = try await desk.relay("launch", "TV", "https://films.example/2", "--no-wait", "--json")
        try expect("launch", sent)
        let id = try #require(try sent.json["command"] as? String)
        try expect("commands", try await desk.relay("commands", "--json"))
        try expect("cancel", try await desk.relay("cancel", id, "--json"))
        let endpoint = try #require(try await tv.relay("whoami", "--json").json["endpoint"] as? String)
        try expect("revoke", try await desk.relay("revoke", endpoint, "--json"))
        try expect("leave", try await desk.relay("leave", "--json"))
        // All commands except the one that prints a script, and those that need a desktop or a second machine.
        let others: Set = ["completions", "account", "profile", "token", "copy", "paste", "pair", "unpair", "nearby"]
        #expect(seen == Set(document.commands).subtracting(others))
        for name in seen.subtracting(["join", "login", "profiles"]) {
            let arguments =
                [
                    "launch": ["TV", "https://x"], "call": ["TV/x", "x"], "ping": ["TV"], "fetch": ["TV"], "cancel": [id],
                    "approve": [endpoint], "verify": [endpoint], "rename": ["Desk"],
                    "revoke": [endpoint], "send": ["--text", "x", "TV"],
                ][name] ?? []
            let output = try await desk.run([name] + arguments + ["--json"])
            #expect(output.status == 3)
            try check(try output.json, name == "doctor" ? "`doctor`" : "error")
            #expect(output.error.isEmpty)
        }
        // Checks the same objects with an independent validator if it is installed.
        if let python = Project.python { #expect(try await JSONSchema.faults(printed.objects, python: python) == []) }
    }

    @Test(
        arguments: [
            ["nonsense"], ["launch"], ["launch", "TV"], ["launch", "TV", "https://x", "--wait", "1", "--no-wait"], ["devices", "--al"],
            ["launch", "TV", "https://x", "--wait=-1"], ["launch", "TV", "https://x", "--ttl", "0"], ["launch", "TV", "no-uri"],
            ["host", "--answer", "perhaps"], ["host", "--scheme", "no scheme"], ["join"], ["devices", "--home="], ["rename"],
            ["call", "TV/x"], ["call", "TV/x", "x", "{}", "--stream"], ["call", "TV/x", "x", "--timeout", "0"],
            ["call", "TV/x", "x", "no JSON"],
            ["agent", "--config", "/no/such"], ["agent", "reinstall"], ["fetch"], ["fetch", "TV", "x", "--output="], ["doctor", "a", "b"],
            ["login"], ["login", "--device", "--browser", "https://relay.example"], ["login", "ftp://relay.example"],
            ["whoami", "--profile", "No"], ["profile", "use"], ["profile", "misuse"],
            ["ping"], ["ping", "TV", "--count", "0"], ["ping", "TV", "--interval=-1"], ["ping", "TV", "--timeout", "0"],
        ]
    )
    func wrongUsageExitsWithTwo(arguments: [String]) async throws {
        let device = try TestDevice()
        let words = try await device.run(arguments)
        #expect(words.status == 2)
        #expect(words.output.isEmpty && !words.error.isEmpty)
        let json = try await device.run(arguments + ["--json"])
        #expect(json.status == 2)
        #expect(json.error.isEmpty)
        try check(try json.json, "error")
    }

    @Test func helpExitsWithZero() async throws {
        let device = try TestDevice()
        for arguments in [["--help"], ["help", "launch"], ["launch", "--help"], ["completions", "zsh"], ["agent", "install", "--help"]] {
            let output = try await device.run(arguments, withHome: false)
            #expect(output.status == 0)
            #expect(!output.output.isEmpty)
        }
    }
}
