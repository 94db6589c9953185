// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

@testable import RelayAgent

@Suite(.serialized, .timeLimit(.minutes(10))) struct FetchTests {
    /// A folder to share and a folder for downloads.
    private struct Folders {
        let shared: String
        let own: String

        init(_ device: TestDevice) throws {
            (shared, own) = (device.directory.path + "/shared", device.directory.path + "/own")
            for path in [shared + "/Films/empty", own] {
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            }
            try Data("Hello".utf8).write(to: URL(filePath: shared + "/hello.txt"))
            try Data().write(to: URL(filePath: shared + "/Films/nothing"))
            try Data((0..<700_001).map { UInt8(truncatingIfNeeded: $0) }).write(to: URL(filePath: shared + "/Films/Rome è bella"))
        }

        /// How much of a file has arrived that is not whole.
        func arrived(_ name: String) -> Int {
            let names = (try? FileManager.default.subpathsOfDirectory(atPath: own)) ?? []
            return names.filter { $0.contains(".relay-part/") && $0.hasSuffix("/" + name) }.reduce(0) { sum, name in
                sum + ((try? FileManager.default.attributesOfItem(atPath: "\(own)/\(name)")[.size] as? Int) ?? 0)
            }
        }

        var settings: String { "files:\n  folder: \(shared)" }
    }

    private func content(_ path: String) -> [UInt8]? { FileManager.default.contents(atPath: path).map { [UInt8]($0) } }

    @Test func interruptedTransferSaysHowToContinue() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let folders = try Folders(tv)
        // A sparse file, large enough to be interrupted.
        let size = 512 << 20
        guard FileManager.default.createFile(atPath: folders.shared + "/large", contents: nil) else { throw CocoaError(.fileWriteUnknown) }
        let file = try FileHandle(forWritingTo: URL(filePath: folders.shared + "/large"))
        try file.truncate(atOffset: UInt64(size))
        try file.close()
        let agent = try await tv.agent(folders.settings)
        let fetch = try desk.start("fetch", "TV", "large", "-o", folders.own)
        try await wait { folders.arrived("large") > 0 }
        fetch.send(SIGINT)
        let output = await fetch.finish()
        #expect(output.status == 130, "\(output.errorText)")
        #expect(output.errorText.contains("the same command continues the transfer"), "\(output.errorText)")
        let rest = try await desk.relay("fetch", "TV", "large", "-o", folders.own, "--json")
        #expect(rest.status == 0, "\(rest.text)")
        #expect(try rest.json["size"] as? Int == size)
        _ = agent
    }

    @Test func filesAndFoldersAreFetchedUnchanged() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let folders = try Folders(tv)
        let agent = try await tv.agent()
        let without = try await desk.relay("fetch", "TV", "--json")
        #expect(without.status == 4)
        #expect(try code(without) == "appServiceUnavailable")
        try tv.setAgent(folders.settings)
        agent.send(SIGHUP)
        _ = try await agent.line { $0.contains(#""event":"reloaded""#) }
        let listed = try await desk.relay("fetch", "TV", "--json").json["entries"] as? [[String: Any]] ?? []
        #expect(listed.compactMap { $0["name"] as? String } == ["Films", "hello.txt"])
        #expect(listed.compactMap { $0["kind"] as? String } == ["folder", "file"])
        #expect(listed.last?["size"] as? Int == 5)
        let words = try await desk.relay("fetch", "TV", "Films/")
        #expect(words.output.map { $0.split(separator: "  ").first ?? "" } == ["NAME", "Rome è bella", "empty/", "nothing"])
        // A single file: it is not downloaded twice and does not replace another file.
        let place = folders.own + "/hello.txt"
        let came = try await desk.relay("fetch", "TV", "hello.txt", "-o", folders.own, "--json")
        #expect(try came.json["received"] as? Int == 5)
        #expect(try came.json["file"] as? String == place)
        #expect(content(place) == Array("Hello".utf8))
        #expect(try await desk.relay("fetch", "TV", "hello.txt", "-o", place, "--json").json["received"] as? Int == 0)
        try Data("mine".utf8).write(to: URL(filePath: place))
        let kept = try await desk.relay("fetch", "TV", "hello.txt", "-o", place, "--json")
        #expect(kept.status == 1)
        #expect(try code(kept) == "fileExists")
        #expect(content(place) == Array("mine".utf8))
        #expect(try await desk.relay("fetch", "TV", "hello.txt", "-o", place, "--force").status == 0)
        #expect(content(place) == Array("Hello".utf8))
        // A folder with all its content.
        #expect(try await desk.relay("fetch", "TV", "Films", "-o", folders.own).status == 2)
        #expect(try await desk.relay("fetch", "TV", "-r").status == 2)
        let all = try await desk.relay("fetch", "TV", "-r", "-o", folders.own + "/all", "--json")
        #expect(all.status == 0 && all.output.count == 3)
        for name in ["hello.txt", "Films/nothing", "Films/Rome è bella"] {
            #expect(content("\(folders.own)/all/\(name)") == content("\(folders.shared)/\(name)"), "\(name)")
        }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folders.own + "/all/Films").sorted() == [
                "Rome è bella", "empty", "nothing",
            ]
        )
        _ = agent
    }

    @Test func pathsAndLinksDoNotLeaveTheSharedFolder() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let folders = try Folders(tv)
        let secret = tv.directory.path + "/secret"
        try Data("secret".utf8).write(to: URL(filePath: secret))
        for (link, target) in [("file", secret), ("folder", tv.directory.path), ("inner", "hello.txt"), ("loop", "loop"), ("up", "..")] {
            try FileManager.default.createSymbolicLink(atPath: "\(folders.shared)/\(link)", withDestinationPath: target)
        }
        #expect(mkfifo(folders.shared + "/pipe", 0o600) == 0)
        let agent = try await tv.agent(folders.settings)
        // Links and pipes are not listed.
        let listed = try await desk.relay("fetch", "TV", "--json").json["entries"] as? [[String: Any]] ?? []
        #expect(listed.compactMap { $0["name"] as? String } == ["Films", "hello.txt"])
        let refused = [
            "..", "../secret", "Films/../../secret", "Films/..", "/", secret, "//hello.txt", "./hello.txt", "Films//nothing",
            "Films/./nothing",
            "file", "folder", "folder/secret", "inner", "loop", "up/secret",
        ]
        // The same through `relay call`, as any caller could ask.
        let caller = try desk.startReading("call", "TV/org.device-relay.agent", "files", "--stream")
        for path in refused + [secret + "/", "/etc/passwd"] {
            for type in ["stat", "list"] {
                let message = ["Type": .string(type), "path": .string(path)] as ValueSet
                try caller.write(try message.json() + "\n")
                #expect(try JSON.object(try await caller.line()) as? [String: String] == ["problem": "notAllowed"], "\(type) \(path)")
            }
        }
        for (path, problem) in [("pipe", "notFound"), ("nothing", "notFound"), ("hello.txt/x", "notFound"), ("hello.txt", "notAFolder")] {
            let message = ["Type": "list", "path": .string(path)] as ValueSet
            try caller.write(try message.json() + "\n")
            #expect(try JSON.object(try await caller.line()) as? [String: String] == ["problem": problem], "\(path)")
        }
        try caller.endInput()
        #expect(await caller.finish().status == 0)
        for message in [
            #"{"Type":"read","path":"hello.txt","offset":0,"length":1}"#, #"{"Type":"send"}"#,
            #"{"Type":"send","files":[{"entry":-1,"path":"hello.txt","etag":""}]}"#,
            #"{"Type":"send","files":[{"entry":4294967296,"path":"hello.txt","etag":""}]}"#, #"{"Type":"list"}"#, #"{"Type":"write"}"#,
            "{}",
        ] {
            let output = try await desk.relay("call", "TV/org.device-relay.agent", "files", message, "--json")
            #expect(try code(output) == "invalidMessage", "\(message)")
        }
        #expect(try await desk.relay("fetch", "TV", "../secret", "-o", folders.own + "/x").status == 6)
        _ = agent
    }

    /// A transfer goes on by itself when the agent is there again.
    @Test func transferWaitsForAnAgentThatWasKilled() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let folders = try Folders(tv)
        let (large, place) = (folders.shared + "/large", folders.own + "/large")
        let size = 600_000_000
        try Data().write(to: URL(filePath: large))
        let file = try FileHandle(forUpdating: URL(filePath: large))
        try file.truncate(atOffset: UInt64(size))
        for offset in stride(from: 0, to: size, by: 7_654_321) {
            try file.seek(toOffset: UInt64(offset))
            try file.write(contentsOf: Data("here is \(offset)".utf8))
        }
        try file.close()
        func arrived() -> Int { folders.arrived("large") }
        var agent = try await tv.agent(folders.settings)
        let fetch = try desk.start("fetch", "TV", "large", "-o", place, "--json")
        var there = 0
        for _ in 0..<2 {
            try await wait { arrived() > there + 1_000_000 }
            agent.send(SIGKILL)
            _ = await agent.finish()
            there = arrived()
            #expect(there < size)
            agent = try await tv.agent(folders.settings)
        }
        let whole = await fetch.finish()
        #expect(whole.status == 0 && whole.output.count == 1, "\(whole.text)")
        #expect(try whole.json["received"] as? Int ?? .max <= size - there)
        #expect(FileManager.default.contentsEqual(atPath: large, andPath: place))
        #expect(try FileManager.default.contentsOfDirectory(atPath: folders.own) == ["large"])
    }

    /// A fetch that is killed at any point claims nothing that is not whole, and the same command goes on.
    @Test func killedFetchContinues() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let folders = try Folders(tv)
        let (tree, into) = (folders.shared + "/tree", folders.own + "/tree")
        try FileManager.default.createDirectory(atPath: tree + "/inner", withIntermediateDirectories: true)
        var bytes = 0
        for number in 0..<60 {
            let size = [0, 1, 300_000, 4_000_000, 70_000_000][number % 5]
            let content = Data((0..<1_000).map { UInt8(truncatingIfNeeded: $0 * (number + 1)) })
            let file = try FileHandle(forWritingTo: Self.new("\(tree)/\(number.isMultiple(of: 2) ? "inner/" : "")file \(number)"))
            for offset in stride(from: 0, to: size, by: 1_000_000) {
                try file.seek(toOffset: UInt64(offset))
                try file.write(contentsOf: content.prefix(size - offset))
            }
            try file.truncate(atOffset: UInt64(size))
            try file.close()
            bytes += size
        }
        let agent = try await tv.agent(folders.settings)
        func here() -> [String] {
            ((try? FileManager.default.subpathsOfDirectory(atPath: into)) ?? []).filter { name in
                (try? FileManager.default.attributesOfItem(atPath: "\(into)/\(name)")[.type] as? FileAttributeType) == .typeRegular
            }
        }
        func arrived() -> Int {
            here().reduce(0) { $0 + ((try? FileManager.default.attributesOfItem(atPath: "\(into)/\($1)")[.size] as? Int) ?? 0) }
        }
        for part in [1, 30_000_000, 120_000_000, 300_000_000, 600_000_000] {
            let fetch = try desk.start("fetch", "TV", "tree", "-r", "-o", folders.own)
            try await wait { arrived() >= part }
            fetch.send(SIGKILL)
            _ = await fetch.finish()
            for name in here() where !name.contains(".relay-part/") {
                #expect(FileManager.default.contentsEqual(atPath: "\(tree)/\(name)", andPath: "\(into)/\(name)"), "\(name)")
            }
        }
        let there = arrived()
        let rest = try await desk.relay("fetch", "TV", "tree", "-r", "-o", folders.own, "--json")
        #expect(rest.status == 0, "\(rest.errorText)")
        let received = try rest.output.reduce(0) { $0 + (try JSON.object($1)["received"] as? Int ?? 0) }
        #expect(received == bytes - there)
        let (names, copied) = (
            try FileManager.default.subpathsOfDirectory(atPath: tree), try FileManager.default.subpathsOfDirectory(atPath: into)
        )
        #expect(copied.sorted() == names.sorted())
        #expect(FileManager.default.contentsEqual(atPath: tree, andPath: into))
        _ = agent
    }

    private static func new(_ path: String) -> URL {
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        return URL(filePath: path)
    }

    @Test func agentThatSendsNoContentIsNamed() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let older = AppService("files") { connection, _ in
            try await connection.respond { request in
                guard request.message["Type"] == "stat" else {
                    throw AppServiceError(.invalidMessage, message: "'Type' must be stat, list or read")
                }
                return try HostileFolder.stat(.file)
            }
        }
        let tv = try await account.app(RemoteSystemAppRegistration(appID: "org.device-relay.agent", services: [older]), on: "TV")
        let output = try await desk.relay("fetch", "TV", "film", "-o", desk.directory.path + "/film", "--json")
        #expect(output.status == 1)
        #expect(try code(output) == "versionMismatch")
        #expect(output.text.contains("update it"))
        _ = tv
    }

    @Test func fileIsWrittenToStandardOutput() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let folders = try Folders(tv)
        let lines = (0..<200_000).map { "line \($0)" }
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(filePath: folders.shared + "/lines"))
        let agent = try await tv.agent(folders.settings)
        let whole = try await desk.relay("fetch", "TV", "lines", "-o", "-")
        #expect(whole.status == 0)
        #expect(whole.output == lines && whole.error.isEmpty)
        #expect(try await desk.relay("fetch", "TV", "Films/nothing", "-o", "-").output == [])
        // A pipe is not replaced, but it can be written to.
        let pipe = folders.own + "/pipe"
        #expect(mkfifo(pipe, 0o600) == 0)
        let script = #"cat "$0" | wc -l & relay fetch TV lines -o - --home "$1" > "$0"; wait"#
        let piped = try await RelayProcess(
            ["-c", script, pipe, desk.home],
            executable: URL(filePath: "/bin/sh"),
            environment: desk.environment.merging(["PATH": "\(Project.products.path):/usr/bin:/bin"]) { $1 }
        ).finish()
        #expect(piped.output.map { $0.filter { $0 != " " } } == ["\(lines.count)"], "\(piped.errorText)")
        // The transfer ends when the reader of its output goes away.
        let cut = try desk.startForOneLine("fetch", "TV", "lines", "-o", "-")
        let end = await cut.finish()
        #expect(end.output == ["line 0"] && end.error.last == "1")
        #expect(try await desk.relay("fetch", "TV", "Films", "-o", "-").status == 2)
        #expect(try await desk.relay("fetch", "TV", "Films", "-r", "-o", "-").status == 2)
        #expect(try await desk.relay("fetch", "TV", "lines", "-o", "-", "--json").status == 2)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folders.own) == ["pipe"])
        _ = agent
    }

    @Test func namesFromTheOtherDeviceCannotLeaveTheDestination() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let (hostile, names) = (HostileFolder(), Names())
        hostile.answer { question in
            switch question.type {
            case "stat": try HostileFolder.stat(question.path.isEmpty ? .folder : .file)
            case "list": try HostileFolder.list([HostileFolder.file(names.current)])
            default: HostileFolder.content(Array("evil".utf8))
            }
        }
        let tv = try await account.app(hostile.registration, on: "TV")
        let own = desk.directory.path + "/own"
        try FileManager.default.createDirectory(atPath: own, withIntermediateDirectories: true)
        for name in [
            "../evil", "/tmp/evil", "..", ".", "", "a/b", "\u{1B}[31mred", "line\nbreak", "\u{202E}txt", ".x.relay-part",
        ] {
            names.current = name
            let output = try await desk.relay("fetch", "TV", "-r", "-o", own + "/in/here", "--json")
            #expect(output.status == 1, "\(name)")
            #expect(try code(output) == "nameNotAllowed", "\(name): \(output.text)")
        }
        #expect(try FileManager.default.subpathsOfDirectory(atPath: own).sorted() == ["in", "in/here"])
        // A single file gets the name that the user asked for.
        names.current = "../evil"
        #expect(try await desk.relay("fetch", "TV", "good", "-o", own).status == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: own).sorted() == ["good", "in"])
        #expect(!FileManager.default.fileExists(atPath: desk.directory.path + "/evil"))
        _ = tv
    }

    /// A name that the test changes between requests.
    private final class Names: @unchecked Sendable {
        private let lock = NSLock()
        private var name = ""
        var current: String {
            get { lock.withLock { name } }
            set { lock.withLock { name = newValue } }
        }
    }

    @Test func progressFitsInALineOfATerminal() {
        let progress = TransferProgress()
        #expect(progress.line() == "waiting for the other device")
        let now = ContinuousClock.now
        progress.begin("film\u{1B}", size: 10_000_000, at: 2_000_000)
        progress.reached(5_000_000)
        let line = progress.line(now: now + .seconds(3))
        #expect(line.hasPrefix("[##########----------] 50 % of 10.0 MB, 1.0 MB/s, ") && line.hasSuffix("  film\u{FFFD}"))
        #expect(line.count < 80)
    }

    @Test(arguments: [
        (Int64(0), "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (.max, "9223.4 PB"),
    ])
    func bytesAreFormattedForPeople(count: Int64, text: String) { #expect(ByteCount.text(count) == text) }
}
