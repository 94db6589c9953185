// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// The files of other devices by the agent: its API, and `relay fetch`.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentFilesTests {
    /// Desk and TV, each with an agent. TV shares a folder.
    private struct World {
        let account: TestAccount
        let (desk, tv): (TestDevice, TestDevice)
        let (agent, other): (RelayProcess, RelayProcess)
        let shared: String

        init(_ settings: String = "") async throws {
            account = try await TestAccount()
            (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
            shared = tv.directory.path + "/shared"
            try FileManager.default.createDirectory(atPath: shared + "/Films/empty", withIntermediateDirectories: true)
            try Data("Hello".utf8).write(to: URL(filePath: shared + "/hello.txt"))
            try Data().write(to: URL(filePath: shared + "/Films/nothing"))
            try Data(Self.content).write(to: URL(filePath: shared + "/Films/Rome è bella"))
            other = try await tv.agent("files:\n  folder: \(shared)")
            agent = try await desk.agent(settings)
        }

        static let content = (0..<700_001).map { UInt8(truncatingIfNeeded: $0 / 7) }

        func makeLarge(_ size: Int) throws {
            guard FileManager.default.createFile(atPath: shared + "/large", contents: nil) else { throw CocoaError(.fileWriteUnknown) }
            let file = try FileHandle(forWritingTo: URL(filePath: shared + "/large"))
            try file.truncate(atOffset: UInt64(size))
            try file.close()
        }

        /// A request whose answer goes to a file.
        func get(_ path: String, _ arguments: String...) async throws -> (status: Int, head: [String: String], body: [UInt8]) {
            let (head, body) = (desk.directory.path + "/head", desk.directory.path + "/body")
            try? FileManager.default.removeItem(atPath: body)
            let arguments = ["-D", head, "-o", body] + arguments
            let answer = try await AgentAPI.curl(desk, path, all: arguments)
            let lines = try String(contentsOfFile: head, encoding: .utf8).components(separatedBy: "\r\n").dropFirst()
            let fields = lines.compactMap { line -> (String, String)? in
                guard let colon = line.firstIndex(of: ":") else { return nil }
                return (line[..<colon].lowercased(), line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces))
            }
            return (
                answer.status, Dictionary(fields, uniquingKeysWith: { $1 }),
                FileManager.default.contents(atPath: body).map { [UInt8]($0) } ?? []
            )
        }
    }

    @Test func filesAreReadWithRanges() async throws {
        let world = try await World()
        let path = "/v1/files/TV/Films/Rome%20%C3%A8%20bella"
        let content = World.content
        let whole = try await world.get(path)
        #expect(whole.status == 200 && whole.body == content)
        #expect(whole.head["content-length"] == "\(content.count)" && whole.head["accept-ranges"] == "bytes")
        #expect(whole.head["content-type"] == "application/octet-stream" && whole.head["content-disposition"] == "attachment")
        #expect(whole.head["content-security-policy"] == "sandbox" && whole.head["x-content-type-options"] == "nosniff")
        #expect(whole.head["cache-control"] == "no-store")
        let tag = try #require(whole.head["etag"])
        for (range, expected) in [
            ("0-0", 0..<1), ("100000-600000", 100_000..<600_001), ("-5", 699_996..<700_001), ("700000-", 700_000..<700_001),
        ] {
            let part = try await world.get(path, "-H", "Range: bytes=\(range)", "-H", "If-Range: \(tag)")
            #expect(part.status == 206 && part.body == Array(content[expected]), "\(range)")
            #expect(part.head["content-range"] == "bytes \(expected.lowerBound)-\(expected.upperBound - 1)/700001")
        }
        #expect(try await world.get(path, "-H", "Range: bytes=1-2", "-H", "If-Range: \"other\"").body.count == content.count)
        let beyond = try await world.get(path, "-H", "Range: bytes=700001-")
        #expect(beyond.status == 416 && beyond.head["content-range"] == "bytes */700001")
        let same = try await world.get(path, "-H", "If-None-Match: \(tag)")
        #expect(same.status == 304 && same.body.isEmpty && same.head["etag"] == tag)
        #expect(try await world.get(path, "-H", "If-Match: \"other\"").status == 412)
        let head = try await world.get(path, "-I")
        #expect(head.status == 200 && head.head["content-length"] == "700001" && head.head["etag"] == tag)
        let empty = try await world.get("/v1/files/TV/Films/nothing")
        #expect(empty.status == 200 && empty.body.isEmpty && empty.head["content-length"] == "0")
        #expect(try await world.get("/v1/files/TV/Films/nothing", "-H", "Range: bytes=0-").status == 416)
        // Another content is another file.
        try Data("other".utf8).write(to: URL(filePath: world.shared + "/Films/Rome è bella"))
        #expect(try await world.get(path, "-H", "If-None-Match: \(tag)").body == Array("other".utf8))
    }

    @Test func foldersAreListedInPages() async throws {
        let world = try await World()
        let root = try await AgentAPI.curl(world.desk, "/v1/files/TV")
        #expect(root.status == 200)
        #expect((try root.json["entries"] as? [[String: Any]])?.compactMap { $0["name"] as? String } == ["Films", "hello.txt"])
        #expect(try root.json["deviceName"] as? String == "TV" && root.json["path"] as? String == "")
        let films = try await AgentAPI.curl(world.desk, "/v1/files/TV/Films/")
        #expect(
            (try films.json["entries"] as? [[String: Any]])?.compactMap { $0["name"] as? String } == ["Rome è bella", "empty", "nothing"]
        )
        let head = try await world.get("/v1/files/TV/Films", "-I")
        #expect(head.status == 200 && head.head["content-type"] == "application/json")
        let many = world.shared + "/many"
        try FileManager.default.createDirectory(atPath: many, withIntermediateDirectories: true)
        for number in 0..<1_005 { try Data().write(to: URL(filePath: "\(many)/\(10_000 + number)")) }
        let first = try await AgentAPI.curl(world.desk, "/v1/files/TV/many")
        let names = try #require(try first.json["entries"] as? [[String: Any]]).compactMap { $0["name"] as? String }
        #expect(try names.count == 1_000 && first.json["more"] as? Bool == true)
        let next = try await AgentAPI.curl(world.desk, "/v1/files/TV/many?after=\(try #require(names.last))")
        #expect(try (next.json["entries"] as? [Any])?.count == 5 && next.json["more"] == nil)
        #expect(try await AgentAPI.curl(world.desk, "/v1/files/TV/many?after=..").status == 400)
    }

    /// Each segment of a path is one name, decoded once.
    @Test func namesAreNeverPaths() async throws {
        let world = try await World()
        try Data("secret".utf8).write(to: URL(filePath: world.tv.directory.path + "/secret"))
        let names = ["100%.txt", "%2e%2e", "a+b &?#;.txt", "Grüße 👋.txt", "%25", "...", "..a", " ", "a%2Fb"]
        for name in names { try Data(name.utf8).write(to: URL(filePath: world.shared + "/" + name)) }
        for name in names {
            let encoded = try #require(name.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
            let answer = try await world.get("/v1/files/TV/\(encoded)")
            #expect(answer.status == 200 && answer.body == Array(name.utf8), "\(name): \(answer.status)")
        }
        for path in [
            "..", "%2e%2e", "../secret", "%2e%2e/secret", "..%2fsecret", "Films%2f..%2fhello.txt", "Films/../hello.txt", "Films/./nothing",
            "%2fetc%2fpasswd", "Films%2fnothing", "hello.txt%00", "%00", "a%5cb", "Films//nothing", "%0a", "%E2%80%AE",
        ] {
            let answer = try await AgentAPI.curl(world.desk, "/v1/files/TV/\(path)")
            #expect(answer.status == 403 && answer.code == "fileNotAllowed", "\(path): \(answer.status) \(answer.text)")
        }
        for path in ["%", "%zz", "%ff", "a%c0%af"] {
            #expect(try await AgentAPI.curl(world.desk, "/v1/files/TV/\(path)").status == 400, "\(path)")
        }
        #expect(try await AgentAPI.curl(world.desk, "/v1/files/TV/missing").status == 404)
        #expect(try await AgentAPI.curl(world.desk, "/v1/files/TV/hello.txt/x").status == 404)
        #expect(try await AgentAPI.curl(world.desk, "/v1/files/Nowhere/x").status == 404)
        // The audit has neither names nor paths.
        let audit = try await world.desk.relay("audit", "--json")
        #expect(audit.text.contains(#""action":"files""#) && !audit.text.contains("hello.txt") && !audit.text.contains("Films"))
    }

    @Test func tokenReadsWhatItMay() async throws {
        let world = try await World()
        let tv = try #require(try await world.tv.relay("whoami", "--json").json["device"] as? String)
        let desk = try #require(try await world.desk.relay("whoami", "--json").json["device"] as? String)
        func token(_ name: String, _ scope: String, _ device: String) async throws -> String {
            let made = try await world.desk.relay("token", "add", name, "--scope", scope, "--device", device)
            return "Authorization: Bearer \(try #require(made.output.first))"
        }
        let (good, other, launch) = (
            try await token("a", "files", tv), try await token("b", "files", desk), try await token("c", "launch", tv)
        )
        #expect(try await world.get("/v1/files/TV/hello.txt", "-H", good).body == Array("Hello".utf8))
        for bearer in [other, launch] {
            for path in ["", "/hello.txt", "/missing", "?stat=true"] {
                let answer = try await AgentAPI.curl(world.desk, "/v1/files/TV\(path)", "-H", bearer)
                #expect(answer.status == 403 && answer.code == "insufficientScope", "\(path)")
            }
        }
        // A removed token ends what it reads.
        try world.makeLarge(1 << 40)
        let reader = try AgentAPI.start(world.desk, "/v1/files/TV/large", "-o", "/dev/null", "-H", good)
        try await wait { try Self.opens(world.other.id, world.shared + "/large") }
        #expect(try await world.desk.relay("token", "remove", "a").status == 0)
        #expect(await reader.finish().status != 0)
    }

    /// A reader that stops costs no memory, and one that goes away ends the download on the other device too.
    @Test func readerThatStopsIsWaitedFor() async throws {
        let world = try await World()
        try world.makeLarge(1 << 40)
        let reader = try AgentAPI.start(world.desk, "/v1/files/TV/large", "-o", "/dev/null", "--limit-rate", "1k")
        let path = world.shared + "/large"
        try await wait { try Self.opens(world.other.id, path) }
        let before = try Self.memory(world.agent.id)
        // The agent answers others meanwhile.
        for _ in 0..<20 { #expect(try await world.get("/v1/files/TV/hello.txt").body.count == 5) }
        #expect(try Self.memory(world.agent.id) < before + 64 << 20)
        #expect(try Self.memory(world.other.id) < 512 << 20)
        reader.send(SIGKILL)
        try await wait { try !Self.opens(world.other.id, path) }
    }

    /// Whether a process has a file open.
    private static func opens(_ process: pid_t, _ path: String) throws -> Bool {
        let folder = "/proc/\(process)/fd"
        return try FileManager.default.contentsOfDirectory(atPath: folder).contains {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")) == path
        }
    }

    /// The memory of a process in bytes.
    private static func memory(_ process: pid_t) throws -> Int {
        let text = try String(contentsOfFile: "/proc/\(process)/statm", encoding: .utf8)
        return (text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? .max / 8_192) * Int(sysconf(Int32(_SC_PAGESIZE)))
    }

    @Test func deviceThatGoesAwayEndsTheAnswer() async throws {
        let world = try await World()
        try world.makeLarge(1 << 40)
        let file = world.desk.directory.appending(path: "large").path
        let reader = try AgentAPI.start(world.desk, "/v1/files/TV/large", "--limit-rate", "20M", "-o", file)
        // The answer has begun.
        try await wait { (try? FileManager.default.attributesOfItem(atPath: file))?[.size] as? Int ?? 0 > 0 }
        world.other.send(SIGKILL)
        // curl: the transfer is partial.
        #expect(await reader.finish().status == 18)
        #expect(try await AgentAPI.curl(world.desk, "/v1").status == 200)
    }

    @Test func fetchIsTheSameBothWays() async throws {
        let world = try await World()
        try FileManager.default.createSymbolicLink(atPath: world.shared + "/link", withDestinationPath: "hello.txt")
        try Data("x".utf8).write(to: URL(filePath: world.shared + "/back\\slash"))
        let names = ["own", "other"].map { world.desk.directory.path + "/" + $0 }
        for name in names { try FileManager.default.createDirectory(atPath: name, withIntermediateDirectories: true) }
        let commands: [[String]] = [
            [""], ["", "--json"], ["Films"], ["Films/"], ["Films", "--json"], ["missing"], ["missing", "--json"], ["..", "--json"],
            ["Films//nothing", "--json"], ["/hello.txt"], ["hello.txt/x"], ["link"], ["Films", "-o", "PLACE"], ["hello.txt", "-o", "-"],
            ["hello.txt", "-o", "PLACE"], ["hello.txt", "-o", "PLACE", "--json"], ["Films/Rome è bella", "-o", "PLACE/rome", "--json"],
            ["Films", "-r", "-o", "PLACE/films", "--json"], ["", "-r", "-o", "PLACE/all", "--json"], ["", "-r"],
            ["Films/nothing", "-o", "PLACE/hello.txt", "--json"], ["Films/nothing", "-o", "PLACE/hello.txt", "--force"],
            ["Films/nothing", "-o", "PLACE/nowhere/x"],
        ]
        for command in commands {
            var outputs: [CommandOutput] = []
            for (place, way) in zip(names, [[], ["--no-agent"]]) {
                var output = try await world.desk.run(["fetch", "TV"] + command.map { $0.replacing("PLACE", with: place) } + way)
                output.output = output.output.map { $0.replacing(place, with: "PLACE") }
                output.error = output.error.map { $0.replacing(place, with: "PLACE") }
                outputs.append(output)
            }
            #expect(outputs[0].status == outputs[1].status, "\(command): \(outputs[0].errorText) | \(outputs[1].errorText)")
            #expect(outputs[0].output.sorted() == outputs[1].output.sorted(), "\(command)")
            #expect(outputs[0].error == outputs[1].error, "\(command)")
        }
        let rome = FileManager.default.contents(atPath: names[0] + "/all/Films/Rome è bella").map { [UInt8]($0) }
        #expect(rome == World.content)
        for arguments in [["fetch", "Nowhere"], ["fetch", "Nowhere", "--json"], ["fetch", "TV/nothing"], ["fetch", "Desk", "x"]] {
            let (one, other) = (try await world.desk.run(arguments), try await world.desk.run(arguments + ["--no-agent"]))
            #expect(one.status == other.status && one.output == other.output && one.error == other.error, "\(arguments)")
        }
        // Only the agent that really runs was asked: it wrote down who read.
        #expect(try await world.desk.relay("audit", "--json").text.contains(#""answer":"read""#))
    }

    /// What has arrived by the agent is continued, also without it, and the other way round.
    @Test(arguments: [[[], ["--no-agent"]], [["--no-agent"], []], [[], []]]) func interruptedFetchGoesOn(ways: [[String]]) async throws {
        let world = try await World()
        let size = 512 << 20
        try world.makeLarge(size)
        let own = world.desk.directory.path + "/own"
        try FileManager.default.createDirectory(atPath: own, withIntermediateDirectories: true)
        let fetch = try world.desk.startReading(["fetch", "TV", "large", "-o", own] + ways[0])
        try await wait { Self.part(in: own) != nil }
        fetch.send(SIGINT)
        let output = await fetch.finish()
        #expect(output.status == 130 && output.errorText.contains("the same command continues the transfer"), "\(output.errorText)")
        let rest = try await world.desk.run(["fetch", "TV", "large", "-o", own, "--json"] + ways[1])
        #expect(try rest.status == 0 && rest.json["size"] as? Int == size, "\(rest.text)")
        #expect(try (rest.json["received"] as? Int ?? size) < size)
    }

    /// A part that is not the beginning of the file is not continued.
    @Test(arguments: [[], ["--no-agent"]]) func wrongPartIsNotContinued(way: [String]) async throws {
        let world = try await World()
        let size = 512 << 20
        try world.makeLarge(size)
        let own = world.desk.directory.path + "/own"
        try FileManager.default.createDirectory(atPath: own, withIntermediateDirectories: true)
        let fetch = try world.desk.startReading(["fetch", "TV", "large", "-o", own] + way)
        try await wait { Self.part(in: own) != nil }
        fetch.send(SIGINT)
        #expect(await fetch.finish().status == 130)
        let part = try FileHandle(forWritingTo: URL(filePath: try #require(Self.part(in: own))))
        try part.write(contentsOf: Data("damaged".utf8))
        try part.close()
        let rest = try await world.desk.run(["fetch", "TV", "large", "-o", own, "--json"] + way)
        #expect(try rest.status == 0 && rest.json["received"] as? Int == size, "\(rest.text)")
    }

    /// The unfinished file in a folder, once it has a MiB.
    private static func part(in folder: String) -> String? {
        ((try? FileManager.default.subpathsOfDirectory(atPath: folder)) ?? []).map { "\(folder)/\($0)" }.first { path in
            path.contains(".relay-part/") && path.hasSuffix("/large")
                && ((try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int) ?? 0) > 1 << 20
        }
    }

    @Test func fetchWaitsForADeviceThatComesBack() async throws {
        let world = try await World()
        let size = 256 << 20
        try world.makeLarge(size)
        let own = world.desk.directory.path + "/own"
        try FileManager.default.createDirectory(atPath: own, withIntermediateDirectories: true)
        let fetch = try world.desk.start("fetch", "TV", "large", "-o", own, "--json")
        // Only a transfer that has begun waits.
        try await wait { Self.part(in: own) != nil }
        world.other.send(SIGKILL)
        _ = await world.other.finish()
        let again = try await world.tv.agent("files:\n  folder: \(world.shared)")
        let output = await fetch.finish()
        #expect(try output.status == 0 && output.json["size"] as? Int == size, "\(output.text) \(output.errorText)")
        again.send(SIGTERM)
        _ = await again.finish()
    }
}
