// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayAgent
import RelayTesting
import Testing

/// `docs/api.md` and `openapi.yaml` say what the agent does.
@Suite(.serialized, .timeLimit(.minutes(10))) struct APIDocumentTests {
    @Test func linesOfTheFirstPageWork() async throws {
        let account = try await TestAccount()
        let (desk, room) = (try await account.device(named: "Desk"), try await account.device(named: "Living room"))
        let host = try await room.host("--app", "com.example.player", "--scheme", "https")
        let agent = try await desk.agent()
        // The usual home of this user.
        let usual = URL(filePath: desk.directory.path + "/.local/state")
        try FileManager.default.createDirectory(at: usual, withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(atPath: usual.path + "/device-relay", withDestinationPath: desk.home)
        let script = try Project.block(1, of: "docs/api.md")
        var environment = desk.environment
        environment["PATH"] = "\(Project.products.path):/usr/bin:/bin"
        let output = await (try RelayProcess(shell: script, environment: environment)).finish()
        #expect(output.status == 0, "\(output.errorText)")
        #expect(!output.text.contains(#""exit":"#), "\(output.text)")
        for uri in 42...45 { #expect(try JSON.object(try await host.line())["uri"] as? String == "https://films.example/\(uri)") }
        // Each line answers, and the last one shows what the others did.
        let objects = try output.output.filter { $0.utf8.first == UInt8(ascii: "{") }.map(JSON.object)
        #expect(objects.count == 11)
        let actions = (objects.last?["entries"] as? [[String: Any]] ?? []).compactMap { $0["action"] as? String }
        #expect(Set(actions) == ["launch", "call", "token add", "webhook add"])
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    /// The agents of two devices, of which the second one shares and receives files.
    private struct FilesPair {
        let account: TestAccount
        let (desk, room): (TestDevice, TestDevice)
        let (agent, other): (RelayProcess, RelayProcess)
        let socket: String

        init() async throws {
            account = try await TestAccount()
            (desk, room) = (try await account.device(named: "Desk"), try await account.device(named: "Living room"))
            let folder = room.directory.path
            for name in ["shared/Films", "received"] {
                try FileManager.default.createDirectory(atPath: "\(folder)/\(name)", withIntermediateDirectories: true)
            }
            other = try await room.agent("files: {folder: \(folder)/shared}\nreceive: {folder: \(folder)/received}")
            agent = try await desk.agent()
            socket = try #require(
                try JSON.object(String(contentsOfFile: desk.home + "/agent.json", encoding: .utf8))["socket"] as? String
            )
        }

        /// Runs lines of the page where the files are.
        func run(_ script: String) async throws -> CommandOutput {
            let environment = ["PATH": "/usr/bin:/bin", "SOCKET": socket]
            let ended = await (try RelayProcess(shell: script, environment: environment, directory: desk.directory)).finish()
            #expect(ended.status == 0, "\(script): \(ended.text) \(ended.errorText)")
            return ended
        }
    }

    private static let film = Data((0..<1_048_576).map { UInt8(truncatingIfNeeded: $0 / 7) })

    @Test func linesOfTheFilesSectionWork() async throws {
        let pair = try await FilesPair()
        try Self.film.write(to: pair.room.directory.appending(path: "shared/Films/42.mkv"))
        // An earlier download has broken off.
        let file = pair.desk.directory.appending(path: "42.mkv")
        try Self.film.prefix(400_000).write(to: file)
        let listing = try await pair.run(try Project.block(2, of: "docs/api.md")).json
        #expect((listing["entries"] as? [[String: Any]])?.compactMap { $0["name"] as? String } == ["42.mkv"], "\(listing)")
        #expect(try Data(contentsOf: file) == Self.film)
    }

    @Test func linesOfTheTransfersSectionWork() async throws {
        let pair = try await FilesPair()
        try Self.film.write(to: pair.desk.directory.appending(path: "42.mkv"))
        let lines = try Project.block(3, of: "docs/api.md").split(separator: "\n").map(String.init)
        try #require(lines.count == 3)
        let id = try #require(try await pair.run(lines[0]).json["id"] as? String)
        let (put, look) = (lines[1].replacing("/ID/", with: "/\(id)/"), lines[2].replacing("/ID", with: "/\(id)"))
        try #require(put != lines[1] && look != lines[2])
        _ = try await pair.run(put)
        var state: String?
        repeat {
            try await Task.sleep(for: .milliseconds(50))
            state = try await pair.run(look).json["state"] as? String
        } while ["waiting", "sending"].contains(state)
        #expect(state == "succeeded")
        #expect(try Data(contentsOf: pair.room.directory.appending(path: "received/42.mkv")) == Self.film)
    }

    @Test(.enabled(if: Project.python != nil, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has standardwebhooks"))
    func receiverOfTheWebhookSectionWorks() async throws {
        let pair = try await AgentPair()
        let port = try FreePort.take()
        let block = try Project.block(4, of: "docs/api.md")
        let line = try #require(block.split(separator: "\n").first?.trimmingPrefix("$ "))
        let command = String(line).replacing("8123", with: "\(port)")
        let socket = try #require(
            try JSON.object(String(contentsOfFile: pair.desk.home + "/agent.json", encoding: .utf8))["socket"] as? String
        )
        let added = await (try RelayProcess(shell: command, environment: ["PATH": "/usr/bin:/bin", "SOCKET": socket])).finish()
        let secret = try #require((try added.json["webhook"] as? [String: Any])?["secret"] as? String, "\(added.errorText)")
        let script = try #require(try Project.blocks("python", of: "docs/api.md").first)
        #expect(script.contains("8123"))
        let receiver = try RelayProcess(
            ["-c", script.replacing("8123", with: "\(port)")],
            executable: Project.python,
            environment: ["WEBHOOK_SECRET": secret]
        )
        // It is told again if it does not listen yet.
        let launched = try await AgentAPI.launch(pair.desk)
        let told = try await receiver.line()
        #expect(told.hasPrefix("command.final") && told.contains(launched) && told.contains("succeeded"))
        // What is not signed is refused.
        #expect(try await AgentAPI.curl(url: "http://127.0.0.1:\(port)/hook", "-d", "{}").status == 401)
    }

    @Test(.enabled(if: Project.python != nil, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has openapi-spec-validator"))
    func descriptionIsValid() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "openapi-\(UUID().uuidString).yaml")
        try Data(OpenAPIDocument.text.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let python = try #require(Project.python)
        let output = await (try RelayProcess(["-m", "openapi_spec_validator", file.path], executable: python, environment: [:])).finish()
        #expect(output.status == 0, "\(output.text) \(output.errorText)")
    }

    private struct Operation: Hashable, CustomStringConvertible {
        var method: String
        var path: String
        var description: String { "\(method) \(path)" }
    }

    /// The operations of the description.
    private static var operations: [Operation] {
        var path = ""
        var found: [Operation] = []
        for line in OpenAPIDocument.text.split(separator: "\n") {
            if line.hasPrefix("components:") { break }
            if let match = line.wholeMatch(of: #/  (/\S*):/#) { path = String(match.1) }
            if let match = line.wholeMatch(of: #/    (get|head|put|post|delete):/#) {
                found.append(Operation(method: match.1.uppercased(), path: path))
            }
        }
        return found
    }

    /// The description has each route of the agent, and no other.
    @Test func everyRouteIsDescribed() throws {
        let folder = Project.root.appending(path: "Sources/RelayAgent/HTTP/Routes")
        var routes: Set<Operation> = []
        for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            let text = try String(contentsOf: file, encoding: .utf8)
            for match in text.matches(of: /APIRoute\(\s*\.(\w+),\s*"([^"]+)"/) {
                routes.insert(Operation(method: match.1.uppercased(), path: String(match.2)))
            }
        }
        #expect(routes.count > 40)
        #expect(Set(Self.operations) == routes, "\(Set(Self.operations).symmetricDifference(routes))")
    }

    /// A token for some devices reads nothing of the others, in no list and in no stream.
    @Test func tokenForSomeDevicesReadsNothingOfOthers() async throws {
        let pair = try await AgentPair("open: {ask: [x-note], command: [/bin/true, \"{uri}\"]}", isMutual: true)
        let tv = try await pair.tv.relay("whoami", "--json").json
        let scopes = APIScope.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ",")
        let other = String(repeating: "a", count: 52)
        let made = try await AgentAPI.post(
            pair.desk,
            "/v1/tokens",
            #"{"name":"other","scopes":[\#(scopes)],"devices":["\#(other)"]}"#
        )
        let secret = try #require((try made.json["token"] as? [String: Any])?["token"] as? String)
        let token = "Authorization: Bearer \(secret)"
        let stream = try AgentAPI.stream(pair.desk, "--url-query", "types=command,device,transfer,ask", "-H", token)
        _ = try await stream.line { $0.hasPrefix(":") }
        // Something of each kind, and a question that stays open.
        let launch = try await AgentAPI.post(
            pair.desk,
            "/v1/launches",
            #"{"device":"TV","uri":"https://films.example/1"}"#,
            "Prefer: wait=30"
        )
        let command = try #require(try launch.json["command"] as? String)
        #expect(launch.status == 200)
        let granted = try await AgentAPI.post(pair.desk, "/v1/grants", #"{"known":true,"scheme":"x-note"}"#)
        let grant = try #require((try granted.json["grant"] as? [String: Any])?["id"] as? String)
        let call = #"{"device":"TV","service":"ping","message":{"a":1}}"#
        #expect(try await AgentAPI.post(pair.desk, "/v1/calls", call).status == 200)
        #expect(
            try await AgentAPI.post(pair.desk, "/v1/webhooks", #"{"url":"http://127.0.0.1:9/","types":["command.final"]}"#).status == 201
        )
        #expect(try await pair.tv.relay("launch", "Desk", "x-note:1").status == 0)
        let secrets = [
            try #require(tv["device"] as? String), try #require(tv["endpoint"] as? String), "films.example", "x-note", "127.0.0.1:9",
            "\"TV\"",
        ]
        let lists = Self.operations.filter {
            $0.method == "GET" && !$0.path.contains("{") && !["/openapi.yaml", "/v1/events"].contains($0.path)
        }
        #expect(lists.count > 8)
        for list in lists {
            let all = try await AgentAPI.curl(pair.desk, list.path)
            let some = try await AgentAPI.curl(pair.desk, list.path, "-H", token)
            for secret in secrets { #expect(!some.text.contains(secret), "\(list): \(secret)") }
            // The owner's own settings name the scheme, so the list shows that there was something to hide.
            if ["/v1/devices", "/v1/commands", "/v1/audit"].contains(list.path) {
                #expect(secrets.contains { all.text.contains($0) }, "\(list)")
            }
        }
        for (method, path) in [
            ("GET", "/v1/commands/\(command)"), ("DELETE", "/v1/commands/\(command)"), ("DELETE", "/v1/grants/\(grant)"),
        ] {
            #expect(try await AgentAPI.curl(pair.desk, path, "-X", method, "-H", token).status == 404, "\(method) \(path)")
        }
        // A question changes the list without a word of it. It is the last event.
        let follower = try pair.desk.start("asks", "--follow", "--json")
        _ = try await follower.line()
        #expect(try await AgentAPI.curl(pair.desk, "/v1/grants/\(grant)", "-X", "DELETE").status == 200)
        let asked = try pair.tv.start("launch", "Desk", "x-note:2", "--json")
        _ = try await follower.line { $0.contains("x-note:2") }
        var seen: [String] = []
        repeat { seen.append(try await stream.line()) } while seen.last != "event: ask"
        seen.append(try await stream.line())
        for secret in secrets { #expect(!seen.joined().contains(secret), "\(secret)") }
        for process in [follower, asked, stream] {
            process.send(SIGKILL)
            _ = await process.finish()
        }
    }

    /// Each route refuses each wrong credential, before it looks at anything else.
    @Test func everyRouteNeedsItsCredential() async throws {
        let port = try FreePort.take()
        let pair = try await AgentPair("api: {listen: \"127.0.0.1:\(port)\"}")
        var tokens: [String: String] = [:]
        for (name, scope) in [("audit", "audit"), ("launch", "launch")] {
            let made = try await AgentAPI.post(pair.desk, "/v1/tokens", #"{"name":"\#(name)","scopes":["\#(scope)"]}"#)
            tokens[name] = try #require((try made.json["token"] as? [String: Any])?["token"] as? String)
        }
        // What shows a token its own, or what anybody may read.
        let open: Set<String> = ["/v1", "/openapi.yaml", "/v1/commands", "/v1/commands/{id}", "/v1/events", "/v1/launches"]
        for operation in Self.operations where operation.path != "/v1/console/sessions" || operation.method != "POST" {
            let path = operation.path.replacing(/\{\w+\}/, with: "x")
            func status(_ credential: String?) async throws -> Int {
                var arguments = ["http://127.0.0.1:\(port)\(path)", "-X", operation.method]
                if operation.method == "HEAD" { arguments += ["-I"] }
                if ["POST", "PUT"].contains(operation.method) { arguments += ["-d", "{}", "-H", "Content-Type: application/json"] }
                if let credential { arguments += ["-H", "Authorization: \(credential)"] }
                return try await AgentAPI.curl(arguments).status
            }
            for wrong in [nil, "Bearer", "Bearer x", "Bearer drt_" + String(repeating: "A", count: 43), "Basic eDp4"] {
                #expect(try await status(wrong) == 401, "\(operation) with \(wrong ?? "nothing")")
            }
            guard !open.contains(operation.path), operation.path != "/v1/audit" else { continue }
            #expect(try await status("Bearer \(tokens["launch"] ?? "")") == 403, "\(operation) without its scope")
        }
    }

    /// Generated requests, good and bad, get answers that the description names.
    @Test(.enabled(if: Project.python != nil, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has schemathesis"))
    func agentAnswersAsDescribed() async throws {
        let port = try FreePort.take()
        let pair = try await AgentPair("api: {listen: \"127.0.0.1:\(port)\"}")
        let scopes = APIScope.allCases.filter { !$0.needsQuestion }.flatMap { ["--scope", $0.rawValue] }
        let token = try #require(try await pair.desk.run(["token", "add", "all"] + scopes).output.first)
        let file = pair.desk.directory.appending(path: "openapi.yaml")
        try Data(OpenAPIDocument.text.utf8).write(to: file)
        let program = try #require(Project.python).deletingLastPathComponent().appending(path: "schemathesis")
        let output = await
            (try RelayProcess(
                [
                    "run", file.path, "--url", "http://127.0.0.1:\(port)", "--header", "Authorization: Bearer \(token)",
                    // The stream has no end, and a diagnosis takes seconds.
                    "--exclude-path", "/v1/events", "--exclude-path", "/v1/doctor",
                    "--max-examples", "12", "--phases", "examples,coverage,fuzzing", "--workers", "1",
                    "--seed", "1",
                    "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
                    "--request-timeout", "60", "--generation-database", "none", "--no-color",
                ],
                executable: program,
                environment: pair.desk.environment,
                directory: pair.desk.directory
            )).finish()
        #expect(output.status == 0, "\(output.text.suffix(4_000)) \(output.errorText.suffix(1_000))")
        // It is still there.
        #expect(try await AgentAPI.curl(pair.desk, "/v1").status == 200)
    }
}
