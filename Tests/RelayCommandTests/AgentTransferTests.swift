// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// What clients of the agent's API send to other devices.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentTransferTests {
    private struct World {
        let account: TestAccount
        let (desk, tv): (TestDevice, TestDevice)
        let (agent, other): (RelayProcess, RelayProcess)
        let into: String

        init(receive: String = "") async throws {
            account = try await TestAccount()
            (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
            into = tv.directory.path + "/into"
            other = try await tv.agent("receive:\n  folder: \(into)\n\(receive)")
            agent = try await desk.agent()
        }

        func received(_ name: String) -> [UInt8]? { FileManager.default.contents(atPath: "\(into)/\(name)").map { [UInt8]($0) } }

        func begin(_ body: String, _ headers: String...) async throws -> String {
            let headers = headers.flatMap { ["-H", $0] }
            let answer = try await AgentAPI.curl(desk, "/v1/transfers", all: ["--json", body] + headers)
            #expect(answer.status == 201, "\(answer.text)")
            return try #require(try answer.json["id"] as? String)
        }

        func put(_ id: String, _ entry: Int, _ bytes: [UInt8], _ arguments: String...) async throws -> AgentAPI.Answer {
            let file = desk.directory.path + "/put-\(UUID().uuidString)"
            try Data(bytes).write(to: URL(filePath: file))
            return try await AgentAPI.curl(desk, "/v1/transfers/\(id)/entries/\(entry)", all: ["-T", file] + arguments)
        }

        /// Begins to send a sparse file slowly.
        func startSlowly(_ id: String, _ entry: Int, size: Int) throws -> RelayProcess {
            let file = desk.directory.path + "/slow-\(UUID().uuidString)"
            guard FileManager.default.createFile(atPath: file, contents: nil) else { throw CocoaError(.fileWriteUnknown) }
            let handle = try FileHandle(forWritingTo: URL(filePath: file))
            try handle.truncate(atOffset: UInt64(size))
            try handle.close()
            return try AgentAPI.start(desk, "/v1/transfers/\(id)/entries/\(entry)", "-T", file, "--limit-rate", "100k")
        }

        func received(_ id: String, _ entry: Int) async throws -> Int {
            let entries = try #require(try await state(id)["entries"] as? [[String: Any]])
            return entries[entry]["received"] as? Int ?? 0
        }

        func state(_ id: String) async throws -> [String: Any] { try await AgentAPI.curl(desk, "/v1/transfers/\(id)").json }

        func end(_ id: String) async throws -> [String: Any] {
            while true {
                let state = try await state(id)
                if !["waiting", "sending", "interrupted"].contains(state["state"] as? String) { return state }
                try await Task.sleep(for: .milliseconds(20))
            }
        }
    }

    private static let content = (0..<3_000_001).map { UInt8(truncatingIfNeeded: $0 / 7) }

    @Test func twoFilesArrive() async throws {
        let world = try await World()
        let stream = try AgentAPI.stream(world.desk)
        _ = try await stream.line { $0.hasPrefix(":") }
        let id = try await world.begin(
            #"{"device":"TV","entries":[{"name":"Rome è bella","size":3000001},{"name":"empty","size":0},{"name":"a b%.txt","size":5}]}"#
        )
        #expect(try await world.put(id, 0, Self.content).status == 204)
        #expect(try await world.put(id, 1, []).status == 204)
        #expect(try await world.put(id, 2, Array("Hello".utf8)).status == 204)
        let end = try await world.end(id)
        #expect(end["state"] as? String == "succeeded", "\(end)")
        #expect(end["names"] as? [String] == ["Rome è bella", "empty", "a b%.txt"])
        #expect(end["bytes"] as? Int == 3_000_006 && end["sent"] as? Int == 3_000_006)
        #expect((end["entries"] as? [[String: Any]])?.compactMap { $0["received"] as? Int } == [3_000_001, 0, 5])
        #expect(
            world.received("Rome è bella") == Self.content && world.received("empty") == []
                && world.received("a b%.txt") == Array("Hello".utf8)
        )
        let line = try await stream.line { $0.contains(id) && $0.contains(#""state":"succeeded""#) }
        #expect(line.hasPrefix("data: {"))
        #expect(
            (try await AgentAPI.curl(world.desk, "/v1/transfers").json["transfers"] as? [[String: Any]])?.map { $0["id"] as? String } == [
                id
            ]
        )
        // What has ended is not cancelled, and takes nothing.
        #expect(try await AgentAPI.curl(world.desk, "/v1/transfers/\(id)", "-X", "DELETE").status == 409)
        #expect(try await world.put(id, 0, Self.content).status == 409)
        let audit = try await world.desk.relay("audit", "--json")
        #expect(audit.text.contains(#""action":"transfer""#) && !audit.text.contains("Rome") && !audit.text.contains("Hello"))
    }

    @Test func linksAndTextsArrive() async throws {
        let world = try await World()
        let id = try await world.begin(#"{"device":"TV","uri":"https://films.example/42","text":"Hello"}"#)
        #expect(try await world.end(id)["state"] as? String == "succeeded")
        #expect(world.received("Text.txt") == Array("https://films.example/42\nHello".utf8))
    }

    @Test func contentIsExactlyWhatWasAnnounced() async throws {
        let world = try await World()
        let id = try await world.begin(#"{"device":"TV","entries":[{"name":"a","size":5},{"name":"b","size":1000000}]}"#)
        #expect(try await world.put(id, 0, Array("Hell".utf8)).code == "sizeDiffers")
        #expect(try await world.put(id, 0, Array("Hello!".utf8)).code == "sizeDiffers")
        #expect(try await world.put(id, 0, Array("Hello".utf8), "-H", "Transfer-Encoding: chunked").status == 411)
        #expect(try await world.put(id, 1, Array("abc".utf8)).code == "entryNotNext")
        for entry in ["2", "-1", "x", "99999999999999999999"] {
            let answer = try await AgentAPI.curl(world.desk, "/v1/transfers/\(id)/entries/\(entry)", "-X", "PUT", "-d", "abc")
            #expect(answer.status == 404, "\(entry)")
        }
        #expect(try await world.put(id, 0, Array("Hello".utf8)).status == 204)
        #expect(try await world.put(id, 0, Array("World".utf8)).code == "entrySent")
        // A client that goes away leaves its file out.
        let sender = try world.startSlowly(id, 1, size: 1_000_000)
        try await wait { try await world.received(id, 1) > 0 }
        sender.send(SIGKILL)
        let end = try await world.end(id)
        #expect(end["state"] as? String == "incomplete", "\(end)")
        #expect((end["leftOut"] as? [[String: Any]])?.compactMap { $0["path"] as? String } == ["b"])
        #expect(world.received("a") == Array("Hello".utf8) && world.received("b") == nil)
    }

    @Test func badTransfersAreRefused() async throws {
        let world = try await World()
        let bad: [(String, Int)] = [
            ("{}", 400), (#"{"device":"TV"}"#, 400), (#"{"device":"TV","entries":[]}"#, 400), (#"{"device":"TV","entries":[1]}"#, 400),
            (#"{"device":"TV","entries":[{"name":"a"}]}"#, 400), (#"{"device":"TV","entries":[{"name":"a","size":-1}]}"#, 400),
            (#"{"device":"TV","entries":[{"name":"a","size":1.5}]}"#, 400),
            (#"{"device":"TV","entries":[{"name":"a","size":1e300}]}"#, 400),
            (#"{"device":"TV","entries":[{"name":"../a","size":1}]}"#, 400), (#"{"device":"TV","entries":[{"name":"..","size":1}]}"#, 400),
            (#"{"device":"TV","entries":[{"name":"","size":1}]}"#, 400),
            (#"{"device":"TV","entries":[{"name":"a\u0000b","size":1}]}"#, 400),
            (#"{"device":"TV","entries":[{"name":"a\\b","size":1}]}"#, 400),
            (#"{"device":"TV","entries":[{"name":"a\u202eb","size":1}]}"#, 400),
            (#"{"device":"TV","entries":[{"name":"a","size":1,"path":"/etc/passwd"}]}"#, 400),
            (#"{"device":"TV","path":"/etc/passwd"}"#, 400),
            (#"{"device":"TV","entries":[{"name":"é","size":1},{"name":"e\u0301","size":1}]}"#, 400),
            (#"{"device":"TV","uri":"no uri"}"#, 400),
            (#"{"device":"Nowhere","text":"x"}"#, 404),
        ]
        for (body, status) in bad {
            let answer = try await AgentAPI.post(world.desk, "/v1/transfers", body)
            #expect(answer.status == status && answer.code != nil, "\(body): \(answer.status) \(answer.text)")
        }
        let many = (0...256).map { #"{"name":"\#($0)","size":1}"# }.joined(separator: ",")
        #expect(try await AgentAPI.post(world.desk, "/v1/transfers", #"{"device":"TV","entries":[\#(many)]}"#).status == 400)
        #expect(try await AgentAPI.curl(world.desk, "/v1/transfers/nothing").status == 404)
        #expect((try await AgentAPI.curl(world.desk, "/v1/transfers").json["transfers"] as? [Any])?.isEmpty == true)
        // Only so many are open. The other device answers none of them.
        world.other.send(SIGSTOP)
        var ids: [String] = []
        for number in 0..<16 { ids.append(try await world.begin(#"{"device":"TV","entries":[{"name":"\#(number)","size":1}]}"#)) }
        let more = #"{"device":"TV","entries":[{"name":"more","size":1}]}"#
        #expect(try await AgentAPI.post(world.desk, "/v1/transfers", more).status == 429)
        #expect(try await AgentAPI.curl(world.desk, "/v1/transfers/\(ids[3])", "-X", "DELETE").json["state"] as? String == "cancelled")
        #expect(try await AgentAPI.post(world.desk, "/v1/transfers", more).status == 201)
    }

    @Test func cancelledTransferEndsItsContents() async throws {
        let world = try await World()
        let id = try await world.begin(#"{"device":"TV","entries":[{"name":"large","size":1000000000}]}"#)
        let sender = try world.startSlowly(id, 0, size: 1_000_000_000)
        try await wait { try await world.received(id, 0) > 0 }
        let ended = try await AgentAPI.curl(world.desk, "/v1/transfers/\(id)", "-X", "DELETE")
        #expect(try ended.status == 200 && ended.json["state"] as? String == "cancelled", "\(ended.text)")
        _ = await sender.finish()
        #expect(world.received("large") == nil)
        #expect(try await AgentAPI.curl(world.desk, "/v1").status == 200)
    }

    /// The bytes go on at the pace of the other device, and nothing collects them.
    @Test func largeContentIsNotKept() async throws {
        let world = try await World()
        let size = 600 << 20
        let id = try await world.begin(#"{"device":"TV","entries":[{"name":"large","size":\#(size)}]}"#)
        let file = world.desk.directory.path + "/large"
        #expect(FileManager.default.createFile(atPath: file, contents: nil))
        let handle = try FileHandle(forWritingTo: URL(filePath: file))
        try handle.truncate(atOffset: UInt64(size))
        try handle.close()
        let answer = try await AgentAPI.curl(world.desk, "/v1/transfers/\(id)/entries/0", all: ["-T", file])
        #expect(answer.status == 204, "\(answer.text)")
        #expect(try await world.end(id)["state"] as? String == "succeeded")
        #expect(try FileManager.default.attributesOfItem(atPath: world.into + "/large")[.size] as? Int == size)
        let status = try String(contentsOfFile: "/proc/\(world.agent.id)/status", encoding: .utf8)
        let peak = try #require(status.firstMatch(of: /VmHWM:\s*(\d+)/).flatMap { Int($0.output.1) })
        #expect(peak < 400 << 10, "\(peak) KiB")
    }

    @Test func deviceThatGoesAwayEndsTheTransfer() async throws {
        let world = try await World()
        let id = try await world.begin(#"{"device":"TV","entries":[{"name":"large","size":1000000000}]}"#)
        let sender = try world.startSlowly(id, 0, size: 1_000_000_000)
        try await wait { try await world.received(id, 0) > 0 }
        world.other.send(SIGKILL)
        let end = try await world.end(id)
        #expect(end["state"] as? String == "failed" && end["code"] != nil, "\(end)")
        _ = await sender.finish()
    }

    @Test func otherDeviceDecides() async throws {
        let world = try await World(receive: "  accept: nothing")
        let none = try await AgentAPI.post(world.desk, "/v1/transfers", #"{"device":"TV","text":"x"}"#)
        #expect(none.status == 404 && none.code == "appServiceUnavailable", "\(none.text)")
        // Without a terminal a question is declined.
        try world.tv.setAgent("receive:\n  folder: \(world.into)\n  accept: ask")
        world.other.send(SIGHUP)
        _ = try await world.other.line { $0.contains(#""event":"reloaded""#) }
        var begun: AgentAPI.Answer?
        try await wait {
            begun = try await AgentAPI.post(world.desk, "/v1/transfers", #"{"device":"TV","entries":[{"name":"a","size":1}]}"#)
            return begun?.status == 201
        }
        let id = try #require(try begun?.json["id"] as? String)
        let end = try await world.end(id)
        #expect(end["state"] as? String == "declined" && end["code"] as? String == "deniedByRemoteSystem", "\(end)")
        #expect(try await world.put(id, 0, [1]).status == 409)
        #expect(world.received("a") == nil)
    }

    @Test func tokenSeesItsOwnTransfers() async throws {
        let world = try await World()
        let tv = try #require(try await world.tv.relay("whoami", "--json").json["device"] as? String)
        func token(_ arguments: String...) async throws -> String {
            "Authorization: Bearer \(try #require(try await world.desk.run(["token", "add"] + arguments).output.first))"
        }
        let (one, other) = (try await token("one", "--scope", "share", "--device", tv), try await token("other", "--scope", "share"))
        let elsewhere = try await token("elsewhere", "--scope", "share", "--device", String(repeating: "a", count: 52))
        let launch = try await token("launch", "--scope", "launch")
        let stream = try AgentAPI.stream(world.desk, "-H", other)
        _ = try await stream.line { $0.hasPrefix(":") }
        let body = #"{"device":"TV","entries":[{"name":"a","size":1}]}"#
        let id = try await world.begin(body, one)
        for (bearer, status) in [(other, 404), (launch, 403), (elsewhere, 404)] {
            #expect(try await AgentAPI.curl(world.desk, "/v1/transfers/\(id)", "-H", bearer).status == status)
            #expect(try await AgentAPI.curl(world.desk, "/v1/transfers/\(id)", "-X", "DELETE", "-H", bearer).status == status)
            #expect(try await world.put(id, 0, [1], "-H", bearer).status == status)
        }
        #expect(try await AgentAPI.post(world.desk, "/v1/transfers", body, elsewhere).status == 403)
        #expect((try await AgentAPI.curl(world.desk, "/v1/transfers", "-H", other).json["transfers"] as? [Any])?.isEmpty == true)
        #expect((try await AgentAPI.curl(world.desk, "/v1/transfers").json["transfers"] as? [Any])?.count == 1)
        // Its transfers end with the token.
        #expect(try await world.desk.relay("token", "remove", "one").status == 0)
        #expect(try await world.end(id)["state"] as? String == "cancelled")
        // The other token's stream has only its own.
        let own = try await world.begin(#"{"device":"TV","text":"x"}"#, other)
        let line = try await stream.line { $0.contains(#""state""#) }
        #expect(line.contains(own))
    }
}
