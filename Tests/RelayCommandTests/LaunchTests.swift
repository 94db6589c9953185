// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@Suite(.serialized, .timeLimit(.minutes(10))) struct LaunchTests {
    @Test func launchReturnsTheReceipt() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host("--app", "com.example.player", "--name", "Player", "--scheme", "https", "--scheme", "x-film")
        let launched = try await desk.relay("launch", "tv", "https://films.example/42?t=1200", "--json")
        #expect(launched.status == 0)
        #expect(try launched.json["status"] as? String == "succeeded")
        #expect(try launched.json["app"] as? String == "com.example.player")
        #expect(try launched.json["deviceName"] as? String == "TV")
        // The device attests the launch.
        let attested = try #require(try launched.json["attested"] as? [String: Any])
        let endpoint = try #require(try await tv.relay("whoami", "--json").json["endpoint"] as? String)
        #expect(attested["by"] as? String == "target" && attested["endpoint"] as? String == endpoint)
        #expect(attested["deviceName"] as? String == "TV" && attested["time"] is String)
        let event = try JSON.object(try await host.line())
        #expect(event["event"] as? String == "launch")
        #expect(event["uri"] as? String == "https://films.example/42?t=1200")
        #expect((event["from"] as? [String: Any])?["name"] as? String == "Desk")
        // By app, by a prefix of the id, and with text output.
        let id = try #require(try await tv.relay("whoami", "--json").json["device"] as? String)
        let lines = try await desk.relay("launch", "\(id.prefix(6))/com.example.player", "x-film:42").output
        #expect(lines.first == "Opened on TV by com.example.player")
        #expect(lines.last?.contains("signed by TV (endpoint \(endpoint.prefix(8)))") == true)
        #expect(try JSON.object(try await host.line())["uri"] as? String == "x-film:42")
        // The named app does not declare this scheme.
        #expect(try await desk.relay("launch", "TV/com.example.player", "x-book:1").status == 4)
        let commands = try await desk.relay("commands", "--json").json["commands"] as? [[String: Any]] ?? []
        #expect(commands.count == 2 && commands.allSatisfy { ($0["attested"] as? [String: Any])?["endpoint"] as? String == endpoint })
        host.send(SIGTERM)
        #expect(await host.finish().status == 0)
    }

    @Test(arguments: [("declined", 6, "deniedByRemoteSystem"), ("unsupported", 4, "protocolUnavailable")])
    func answerOfTheHostIsReported(answer: String, status: Int32, code: String) async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host("--answer", answer)
        let output = try await desk.relay("launch", "TV", "https://films.example/42", "--json")
        #expect(output.status == status)
        let failure = try #require(try output.json["error"] as? [String: Any])
        #expect(failure["code"] as? String == code)
        #expect(failure["exit"] as? Int == Int(status))
        #expect(try JSON.object(try await host.line())["answer"] as? String == answer)
    }

    @Test func fallbackIsLaunchedIfNoAppTakesTheURI() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host("--scheme", "https")
        let launched = try await desk.relay("launch", "TV", "x-film:42", "--fallback", "https://films.example/42", "--json")
        #expect(launched.status == 0)
        #expect(try launched.json["fallback"] as? Bool == true)
        #expect(try JSON.object(try await host.line())["uri"] as? String == "https://films.example/42")
        #expect(try await desk.relay("launch", "TV", "x-film:42").status == 4)
    }

    @Test func invalidURIIsReported() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        for (words, text) in [
            (["TV", "films.example/42"], "begins with a scheme"), (["TV", "https://films.example/ 42"], "position 23"),
            (["https://films.example/42", "TV"], "write the device first"),
        ] {
            let output = try await desk.run(["launch"] + words)
            #expect(output.status == 2)
            #expect(output.errorText.contains(text))
        }
    }

    @Test func missingDeviceOrAppIsNotFound() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let without = try await desk.relay("launch", "TV", "https://films.example/42")
        #expect(without.status == 4)
        #expect(without.errorText.contains("relay host"))
        let host = try await tv.host()
        #expect(try await desk.relay("launch", "Radio", "https://films.example/42").status == 4)
        let app = try await desk.relay("launch", "TV/com.example.none", "https://films.example/42")
        #expect(app.status == 4)
        #expect(app.errorText.contains("org.device-relay.cli"))
        _ = host
    }

    @Test func ambiguousNameIsRejected() async throws {
        let account = try await TestAccount()
        let (desk, first, second) = (
            try await account.device(named: "Desk"), try await account.device(named: "TV"), try await account.device(named: "tv")
        )
        let hosts = [try await first.host(), try await second.host()]
        let output = try await desk.relay("launch", "TV", "https://films.example/42")
        #expect(output.status == 2)
        for device in [first, second] {
            let id = try #require(try await device.relay("whoami", "--json").json["device"] as? String)
            #expect(output.errorText.contains("\(id) ("))
            #expect(try await desk.relay("launch", id, "https://films.example/42").status == 0)
        }
        _ = hosts
    }

    @Test func launchesBesideAHostInTheSameHome() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let (own, host) = (try await desk.host("--app", "com.example.own"), try await tv.host())
        let launches = [
            try desk.start("launch", "TV", "https://films.example/1"), try desk.start("launch", "TV", "https://films.example/2"),
        ]
        for launch in launches { #expect(await launch.finish().status == 0) }
        let uris = [try await host.line(), try await host.line()].map { (try? JSON.object($0))?["uri"] as? String }
        #expect(Set(uris) == ["https://films.example/1", "https://films.example/2"])
        // The host keeps running and accepts launches.
        #expect(try await tv.relay("launch", "Desk", "https://films.example/3").status == 0)
        #expect(try JSON.object(try await own.line())["uri"] as? String == "https://films.example/3")
        // A second host fails.
        let twice = try await desk.relay("host", "--json")
        #expect(twice.status == 1)
        #expect(try (twice.json["error"] as? [String: Any])?["code"] as? String == "endpointInUse")
    }

    @Test func textOfOtherDevicesIsSanitized() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host()
        #expect(try await desk.relay("launch", "TV", "https://films.example/1", "--prefer", "\u{1B}[31m\u{202E}").status == 0)
        let line = try await host.line()
        #expect(!line.contains("\u{1B}") && !line.contains("\\u001b") && !line.contains("\u{202E}"))
        #expect(try JSON.object(line)["preferred"] as? [String] == ["\u{FFFD}[31m\u{FFFD}"])
    }
}
