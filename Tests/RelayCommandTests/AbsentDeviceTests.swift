// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

/// What needs a device that is not there: it says so in the words of `relay devices`, and nothing was handled.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AbsentDeviceTests {
    private struct World {
        let account: TestAccount
        let (desk, tv): (TestDevice, TestDevice)
        let file: String

        init() async throws {
            account = try await TestAccount()
            (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
            file = desk.directory.path + "/hello.txt"
            try Data("Hello".utf8).write(to: URL(filePath: file))
            let shared = tv.directory.path + "/shared"
            try FileManager.default.createDirectory(atPath: shared, withIntermediateDirectories: true)
            let agent = try await tv.agent("files:\n  folder: \(shared)\n")
            #expect(try await desk.relay("call", "TV", "ping").status == 0)
            self.agent = agent
        }

        private let agent: RelayProcess

        func end(_ signal: Int32) async {
            agent.send(signal)
            _ = await agent.finish()
        }

        /// The commands that need the device.
        var commands: [[String]] { [["call", "TV", "ping"], ["fetch", "TV"], ["send", file, "TV"]] }

        func check(_ command: [String], _ state: String) async throws {
            let output = try await desk.run(command + ["--json"])
            #expect(output.status == 5, "\(command): \(output.text)")
            let error = try #require(try output.json["error"] as? [String: Any])
            #expect(error["code"] as? String == "remoteSystemUnavailable", "\(command): \(error)")
            let message = try #require(error["message"] as? String)
            #expect(message.hasPrefix("'TV' is not connected (\(state) since "), "\(command): \(message)")
        }
    }

    /// Nothing wakes it: a wait of any length would be in vain.
    @Test(arguments: [false, true]) func aDeviceThatIsSwitchedOffIsNotWaitedFor(byAgent: Bool) async throws {
        let world = try await World()
        let own = byAgent ? try await world.desk.agent() : nil
        await world.end(SIGTERM)
        try await world.check(["call", "TV", "ping", "--timeout", "600"], "switched off")
        for command in world.commands.dropFirst() { try await world.check(command, "switched off") }
        if byAgent {
            let sent = try await AgentAPI.post(world.desk, "/v1/transfers", #"{"device":"TV","text":"Hello"}"#)
            #expect(sent.status == 503 && sent.code == "remoteSystemUnavailable", "\(sent)")
        }
        own?.send(SIGTERM)
    }

    /// It may come back, so this waits; and then says what is known.
    @Test(arguments: [false, true]) func aDeviceThatIsLostIsSaidToBe(byAgent: Bool) async throws {
        let world = try await World()
        let own = byAgent ? try await world.desk.agent() : nil
        await world.end(SIGKILL)
        try await world.check(["call", "TV", "ping", "--timeout", "1"], "offline")
        try await world.check(world.commands[byAgent ? 1 : 2], "offline")
        own?.send(SIGTERM)
    }

    #if os(Linux)
    /// A person sees what a call waits for.
    @Test(arguments: [false, true]) func aCallShowsWhatItWaitsFor(byAgent: Bool) async throws {
        let world = try await World()
        let own = byAgent ? try await world.desk.agent() : nil
        await world.end(SIGKILL)
        let call = try world.desk.startAtTerminal("call", "TV", "ping", "--timeout", "5")
        let text = byAgent ? "waiting for the answer of 'TV'" : "waiting for "
        _ = try await call.line { $0.contains(text) }
        #expect(await call.finish().status == 5)
        own?.send(SIGTERM)
    }
    #endif
}
