// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(10))) struct CommandTests {
    @Test func unreachableRelayIsReported() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        _ = try await account.relay.stop()
        let output = try await desk.relay("launch", "TV", "https://films.example/42", "--wait", "1", "--json")
        #expect(output.status == 5)
        #expect(try (output.json["error"] as? [String: Any])?["code"] as? String == "relayUnreachable")
        let commands = try await desk.relay("commands", "--json")
        #expect(commands.status == 0)
        #expect(try commands.json["current"] as? Bool == false)
    }

    @Test func pendingLaunchContinuesAndCanBeCancelled() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host()
        // It withdraws nothing, as after a crash.
        host.send(SIGKILL)
        _ = await host.finish()
        let pending = try await desk.relay("launch", "TV", "https://films.example/1", "--wait", "1", "--json")
        #expect(pending.status == 8)
        let first = try #require((try pending.json["error"] as? [String: Any])?["command"] as? String)
        let sent = try await desk.relay("launch", "TV", "https://films.example/2", "--no-wait", "--json")
        #expect(sent.status == 0)
        let second = try #require(try sent.json["command"] as? String)
        let listed = try await desk.relay("commands", "--json").json
        let commands = listed["commands"] as? [[String: Any]] ?? []
        #expect(commands.compactMap { $0["id"] as? String } == [first, second])
        #expect(commands.allSatisfy { $0["ended"] as? Bool == false && $0["deviceName"] as? String == "TV" })
        #expect(listed["current"] as? Bool == true)
        let cancelled = try await desk.relay("cancel", first)
        #expect(cancelled.status == 0)
        #expect(try await desk.relay("cancel", "019a7c3e-0000-7000-8000-000000000000").status == 4)
        #expect(try await desk.relay("cancel", "nothing").status == 2)
        // The returning device gets only the launch that was not cancelled.
        let again = try tv.start("host", "--json")
        // The launch may arrive before the host reports that it is ready.
        let asked = try await again.line { $0.contains(#""event":"launch""#) }
        #expect(try JSON.object(asked)["uri"] as? String == "https://films.example/2")
        var states: [String] = []
        repeat {
            let commands = try await desk.relay("commands", "--json").json["commands"] as? [[String: Any]] ?? []
            states = commands.compactMap { $0["status"] as? String }
        } while states.last != "succeeded"
        #expect(states == ["cancelled", "succeeded"])
        // The relay attests the launch that was never delivered; the device attests the one that ran.
        let ended = try await desk.relay("commands", "--json").json["commands"] as? [[String: Any]] ?? []
        let attested = ended.compactMap { $0["attested"] as? [String: Any] }
        #expect(attested.map { $0["by"] as? String } == ["relay", "target"])
        #expect(attested.map { $0["endpoint"] is String } == [false, true] && attested.map { $0["time"] is String } == [false, true])
        let late = try await desk.relay("cancel", second, "--json")
        #expect(late.status == 1)
        #expect(try (late.json["error"] as? [String: Any])?["code"] as? String == "ended")
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP]) func interruptedLaunchIsReportedAsPending(number: Int32) async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host()
        host.send(SIGKILL)
        _ = await host.finish()
        let launch = try desk.start("launch", "TV", "https://films.example/1", "--json")
        var id: String?
        while id == nil {
            id = (try await desk.relay("commands", "--json").json["commands"] as? [[String: Any]])?.first?["id"] as? String
        }
        launch.send(number)
        let output = await launch.finish()
        // The exit code by which a shell reports the signal.
        #expect(output.status == 128 + number)
        let failure = try #require(try output.json["error"] as? [String: Any])
        #expect(failure["code"] as? String == "pending" && failure["command"] as? String == id)
        #expect((failure["message"] as? String)?.contains("relay cancel \(id ?? "")") == true)
        #expect(try await desk.relay("cancel", id ?? "").status == 0)
    }

    @Test(arguments: [
        (["lanch", "TV", "https://films.example/1"], "did you mean 'launch'?"), (["help", "devises"], "did you mean 'devices'?"),
        (["help", "agent", "instal"], "did you mean 'install'?"), (["help", "nosuch"], "There is no command 'nosuch'"),
        (["launch", "TV", "https://films.example/1", "--wait", "-1"], "--wait must be 0 to"),
        (["ping", "TV", "--interval", "-1"], "--interval must be 0 to"),
    ])
    func usageErrorSuggestsACorrection(words: [String], says: String) async throws {
        let output = try await TestDevice().run(words, withHome: false)
        #expect(output.status == 2)
        #expect(output.errorText.contains(says), "\(output.errorText)")
    }

    #if os(Linux)
    @Test func fullDiskIsReportedAndAClosedPipeIsNot() async throws {
        for (redirection, says) in [("> /dev/full", "relay: cannot write the output: No space left on device"), ("| head -n 0", "")] {
            let relay = Project.products.appending(path: "relay").path
            let shell = try RelayProcess(
                ["-o", "pipefail", "-c", "{ sleep 0.2; '\(relay)' completions bash; } \(redirection)"],
                executable: URL(filePath: "/bin/bash"),
                environment: try TestDevice().environment
            )
            let output = await shell.finish()
            #expect(output.status != 0)
            #expect(output.errorText == says)
        }
    }

    /// What has no output is done all the same: a second run would do it twice.
    @Test func resultThatCannotBeWrittenIsNoFailureOfTheCommand() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host()
        let relay = Project.products.appending(path: "relay").path
        for flag in ["", "--json"] {
            let shell = try RelayProcess(
                ["-c", "exec '\(relay)' launch TV https://films.example/1 --home '\(desk.home)' \(flag) > /dev/full"],
                executable: URL(filePath: "/bin/bash"),
                environment: desk.environment
            )
            let output = await shell.finish()
            #expect(output.status == 1)
            #expect(output.errorText.contains("No space left on device; what the command has done stays done"), "\(output.errorText)")
            _ = try await host.line { $0.contains("https://films.example/1") }
        }
    }
    #endif

    @Test func launchThatIsNotHandledInTimeHasExpired() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host()
        host.send(SIGKILL)
        _ = await host.finish()
        #expect(try await desk.relay("launch", "TV", "https://films.example/1", "--ttl", "1").status == 7)
    }
}
