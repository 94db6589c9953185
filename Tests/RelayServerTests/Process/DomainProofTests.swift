// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayTesting
import Testing

/// The proof of a domain by its HTTPS server and its name server.
@Suite(
    .timeLimit(.minutes(10)),
    .enabled(if: DomainNetwork.isPossible, "only root makes networks, with dnsmasq, which scripts/test installs")
)
struct DomainProofTests {
    @Test func eachWayProvesADomain() async throws {
        let network = try await DomainNetwork()
        let domain = DomainNetwork.domain
        let added = try await network.run("add", domain, "--app", "ios=org.example.player", "--app", "android=org.example.player")
        #expect(added.status == 0, "\(added.error ?? "")")
        let advice = try #require(added.output)
        let file = try #require(advice.firstMatch(of: /device-relay.json with (.*)/)).1
        let original = try #require(advice.firstMatch(of: /cross-platform-app-identifiers with (.*)/)).1
        let record = try #require(advice.firstMatch(of: /TXT "(.*)"/)).1
        let ways: [(name: String, files: [String: String], texts: [String])] = [
            ("the file", ["/.well-known/device-relay.json": String(file)], []),
            ("the original's file", ["/cross-platform-app-identifiers": String(original)], []),
            ("DNS", [:], ["v=spf1 -all", String(record)]),
        ]
        for way in ways {
            try await network.publish()
            let before = try await network.run("verify", domain)
            #expect(before.status == 1 && before.error?.contains("not proven") == true, "\(way.name): \(before)")
            try await network.publish(files: way.files, texts: way.texts)
            let after = try await network.run("verify", domain)
            #expect(after.status == 0 && after.output?.contains("\(domain)  proven") == true, "\(way.name): \(after)")
        }
    }

    @Test func wrongProofsAreExplained() async throws {
        let network = try await DomainNetwork()
        _ = try await network.run("add", DomainNetwork.domain, "--app", "ios=org.example.player")
        let wrong: [(file: String, error: String)] = [
            (#"{"apps": []}"#, "does not list ios=org.example.player"),
            (#"{"apps": [{"platform": "android", "id": "org.example.player"}]}"#, "does not list ios=org.example.player"),
            (#"{"apps": [{"platform": "ios", "id": "ORG.example.player"}]}"#, "does not list ios=org.example.player"),
            ("[]", "does not have the form"),
            ("<html>", "does not have the form"),
            (String(repeating: "a", count: 300 << 10), "cannot be read"),
        ]
        for (file, error) in wrong {
            try await network.publish(files: ["/.well-known/device-relay.json": file])
            let ended = try await network.run("verify", DomainNetwork.domain)
            #expect(ended.status == 1 && ended.error?.contains(error) == true, "\(file.prefix(80)): \(ended)")
        }
        try await network.publish(texts: ["device-relay=someone-elses"])
        let ended = try await network.run("verify", DomainNetwork.domain)
        #expect(ended.status == 1 && ended.error?.contains("no TXT record") == true, "\(ended)")
    }
}

/// A network of its own, with a domain whose HTTPS server and name server a test fills.
final class DomainNetwork {
    struct Answer: Decodable {
        var status: Int32?
        var output: String?
        var error: String?
    }

    static var isPossible: Bool {
        PythonScript.isAvailable && geteuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/sbin/dnsmasq")
    }

    static let domain = "apps.example.org"
    let script: PythonScript
    let relayd: RelaydProcess

    init() async throws {
        relayd = try await RelaydProcess()
        script = try PythonScript("app-domain.py", [Self.domain, RelaydProcess.executable.path])
    }

    func publish(files: [String: String] = [:], texts: [String] = []) async throws {
        let request = ["files": try JSONSerialization.jsonObject(with: JSONEncoder().encode(files)), "texts": texts]
        try await script.ask(String(decoding: try JSONSerialization.data(withJSONObject: request), as: UTF8.self))
    }

    func run(_ arguments: String...) async throws -> Answer {
        let arguments = ["app"] + arguments + ["--data-directory", relayd.directory.path]
        let line = String(decoding: try JSONSerialization.data(withJSONObject: ["run": arguments]), as: UTF8.self)
        return try await script.answer(to: line)
    }
}
#endif
