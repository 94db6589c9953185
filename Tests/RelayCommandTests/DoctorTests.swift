// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

@testable import RelayAgent

@Suite(.serialized, .timeLimit(.minutes(10))) struct DoctorTests {
    /// The status of each check.
    private func statuses(_ output: CommandOutput) throws -> [String: String] {
        let checks = try output.json["checks"] as? [[String: Any]] ?? []
        #expect(try output.json["exit"] as? Int == Int(output.status))
        return Dictionary(uniqueKeysWithValues: checks.map { ($0["name"] as? String ?? "", $0["status"] as? String ?? "") })
    }

    @Test func allChecksPass() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let agents = [try await desk.agent(), try await tv.agent()]
        let words = try await desk.relay("doctor", "TV")
        #expect(words.status == 0)
        #expect(words.output.count == 10 && words.output.allSatisfy { $0.hasPrefix("ok ") }, "\(words.text)")
        #expect(words.error.isEmpty)
        // The relay has one node.
        #expect(!words.text.contains("served by"))
        let json = try await desk.relay("doctor", "tv", "--json")
        #expect(
            try statuses(json)
                == Dictionary(uniqueKeysWithValues: Doctor.Check.Name.allCases.prefix { $0 != .nearby }.map { ($0.rawValue, "ok") })
        )
        _ = agents
    }

    @Test(.enabled(if: PostgresServer.isPossible)) func nodeThatServesTheAccountIsNamed() async throws {
        let port = try FreePort.take()
        let node = "http://127.0.0.1:\(port)"
        let store = try await PostgresServer.shared.makeURI()
        let account = try await TestAccount(
            port: port,
            arguments: ["--url", "http://localhost:\(port)", "--store", store, "--node-url", node]
        )
        let desk = try await account.device(named: "Desk")
        let checks = try await desk.relay("doctor", "--json").json["checks"] as? [[String: Any]] ?? []
        #expect(checks.first { $0["name"] as? String == "login" }?["node"] as? String == node, "\(checks)")
        #expect(try await desk.relay("doctor").text.contains("is served by \(node)"))
    }

    @Test func failedChecksNameTheCause() async throws {
        let account = try await TestAccount()
        #expect(try await TestDevice().relay("doctor").status == 3)
        let tv = try await account.device(named: "TV")
        let desk = try await account.device(named: "Desk")
        // This device publishes nothing, and the other device is missing or does not know this one.
        let none = try await desk.relay("doctor", "TV", "--json")
        #expect(none.status == 4)
        #expect(try statuses(none)["presence"] == "warning")
        #expect(try statuses(none)["mailbox"] == "skipped")
        let agent = try await tv.agent()
        let new = try await desk.relay("doctor", "TV")
        #expect(new.status == 6)
        #expect(new.text.contains("relay approve"))
        let desks = try #require(try await desk.relay("whoami", "--json").json["device"] as? String)
        #expect(try await tv.relay("approve", desks).status == 0)
        #expect(try await desk.relay("doctor", "TV").status == 0)
        agent.send(SIGTERM)
        _ = await agent.finish()
        #expect(try await desk.relay("doctor", "TV").status == 5)
        // The endpoint was revoked.
        let endpoint = try #require(try await desk.relay("whoami", "--json").json["endpoint"] as? String)
        #expect(try await tv.relay("revoke", endpoint).status == 0)
        let out = try await desk.relay("doctor", "--json")
        #expect(out.status == 3)
        #expect(try statuses(out)["login"] == "failed")
        _ = try await account.relay.stop()
        let away = try await desk.relay("doctor", "TV", "--json")
        #expect(away.status == 5)
        #expect(try statuses(away) == ["account": "ok", "relay": "failed"])
    }

    /// A body of another server, or of a proxy, is no statement of the relay.
    @Test(
        arguments: [
            (503, "application/problem+json", #"{"detail": "The relay is stopping."}"#, "The relay is stopping."),
            (404, "application/problem+json", #"{"detail": "Not Found"}"#, nil),
            (404, "application/json", #"{"detail": "Not Found"}"#, nil),
            (503, "application/json", #"{"detail": "Not Found"}"#, nil), (503, nil, #"{"detail": "Not Found"}"#, nil),
            (503, "application/problem+json", #"{"detail": ""}"#, nil), (503, "application/problem+json", "no", nil),
        ]
    )
    func onlyTheRelaySaysWhyItIsNotReady(status: Int, type: String?, body: String, reason: String?) {
        let answer = RelayProbe.Answer(status: status, date: nil, mediaType: type, body: Array(body.utf8))
        #expect(answer.problem == reason)
    }

    @Test func otherRelayAtTheAddressIsNotTrusted() async throws {
        let (account, other) = (try await TestAccount(), try await TestAccount())
        let desk = try await account.device(named: "Desk")
        let file = desk.home + "/relay.json"
        let text = String(decoding: try #require(FileManager.default.contents(atPath: file)), as: UTF8.self)
        try Data(text.replacing(account.relay.host, with: other.relay.host).utf8).write(to: URL(filePath: file))
        let output = try await desk.relay("doctor", "--json")
        #expect(output.status == 5)
        #expect(try statuses(output)["identity"] == "failed")
    }

    @Test func blockedTunnelPortIsAWarning() async throws {
        // The tunnel port is closed at the dialled address.
        let account = try await TestAccount(arguments: ["--tunnel-listen", "127.0.0.2:0"])
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let agent = try await tv.agent()
        let output = try await desk.relay("doctor", "TV", "--json")
        #expect(output.status == 0)
        #expect(try statuses(output)["tunnel"] == "warning")
        #expect(try statuses(output)["device"] == "ok")
        #expect(output.text.contains("firewall") && output.text.contains("TCP port"))
        _ = agent
    }

    @Test func failureOfAllTunnelTransportsIsReported() async throws {
        let account = try await TestAccount(networks: ["127.0.0.2"])
        let network = try await TunnelRejection("127.0.0.2", to: account.relay)
        let desk = try await account.device(named: "Desk")
        let file = desk.home + "/relay.json"
        let text = String(decoding: try #require(FileManager.default.contents(atPath: file)), as: UTF8.self)
        try Data(text.replacing(account.relay.host, with: "127.0.0.2:\(account.relay.port)").utf8).write(to: URL(filePath: file))
        let output = try await desk.relay("doctor", "--json")
        #expect(output.status == 5, "\(output.text)")
        let statuses = try statuses(output)
        #expect(statuses["tunnel"] == "failed")
        for name in ["relay", "identity", "login"] { #expect(statuses[name] == "ok", "\(output.text)") }
        #expect(output.text.contains("TCP port \(account.relay.tunnelPort) of the relay is blocked, and its own port takes no tunnels"))
        try await network.stop()
    }

    private static let faketime = ["/usr/bin/faketime", "/usr/local/bin/faketime"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    @Test(
        .enabled(if: faketime != nil, "another clock needs faketime, which scripts/test installs"),
        arguments: [("+10m", "10 min ahead of", Int32(0), "warning"), ("+30h", "30 h ahead of", 1, "failed")]
    )
    func wrongClockIsReported(shift: String, size: String, status: Int32, what: String) async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let output = try await RelayProcess(
            ["-f", shift, Project.products.appending(path: "relay").path, "doctor", "--json", "--home", desk.home],
            executable: URL(filePath: try #require(Self.faketime)),
            environment: desk.environment.merging(["DONT_FAKE_MONOTONIC": "1"]) { $1 }
        ).finish()
        #expect(output.status == status, "\(output.text)")
        #expect(try statuses(output)["clock"] == what)
        #expect(output.text.contains("it is \(size) the relay's"), "\(output.text)")
        // A clock that is wrong by less than a day does not prevent the login.
        if status == 0 { #expect(try statuses(output)["login"] == "ok") }
    }

    @Test(
        arguments: [
            (0.0, "ok"), (9, "ok"), (-9, "ok"), (100, "warning"), (-100, "warning"), (80_000, "warning"), (90_000, "failed"),
            (-1e300, "failed"),
        ]
    )
    func clockIsComparedWithTheRelays(seconds: Double, status: String) {
        let relay: Int64 = 1_800_000_000_000
        let check = RelayChecks.clock(own: Date(timeIntervalSince1970: 1_800_000_000 + seconds), relay: relay)
        #expect(check.status.rawValue == status)
        #expect((check.advice != nil) == (status != "ok"))
        #expect(status == "ok" || check.message.contains(seconds > 0 ? "ahead of" : "behind"))
        #expect(RelayChecks.clock(own: .now, relay: nil).status == .skipped)
    }
}
