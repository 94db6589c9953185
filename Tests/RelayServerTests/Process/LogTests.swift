// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// The log of a real relay: what happens to accounts and devices, in both formats.
@Suite(.timeLimit(.minutes(10))) struct LogTests {
    /// It imitates a field.
    private static let name = "Anna \" address=192.0.2.66 \""
    private static let filter = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../docs/fail2ban/relayd.conf")
        .standardizedFileURL

    /// A day of use. Returns the log.
    private func day(format: String) async throws -> String {
        let log = FileManager.default.temporaryDirectory.appending(path: "log-\(UUID().uuidString)")
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        defer { try? FileManager.default.removeItem(at: log) }
        let relayd = try await RelaydProcess(arguments: ["--log-level", "info", "--log-format", format])
        relayd.standardError = try FileHandle(forWritingTo: log)
        _ = try await relayd.start()
        let added = try await RelaydProcess.run(
            ["account", "add", Self.name, "--password", "--data-directory", relayd.directory.path],
            input: "correct horse battery\n"
        )
        #expect(added.status == 0, "\(added.error)")
        let account = added.output.trimmingCharacters(in: .whitespacesAndNewlines)
        let (phone, pc) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
        for endpoint in [phone, pc] {
            try await endpoint.join(try await relayd.run("invite", account))
            try await endpoint.connect()
        }
        guard case .ok = try await phone.approve(pc) else { throw WireEndpoint.Unexpected(message: "not approved") }
        // A launch leaves no line.
        _ = try await pc.publish("org.example.player")
        _ = try await phone.send(try phone.launch("https://example.org/private", on: pc, number: 1))
        // A link works once.
        let link = try await relayd.run("invite", account)
        try await WireEndpoint("Third", at: relayd).join(link)
        await #expect(throws: WireEndpoint.Unexpected.self) { try await WireEndpoint("Thief", at: relayd).join(link) }
        for password in ["wrong wrong wrong", "correct horse battery"] {
            let browser = SignInBrowser(origin: relayd.origin)
            _ = try await browser.get("/auth/login")
            _ = try await browser.post("/auth/login", ["name": Self.name, "password": password])
        }
        _ = try await relayd.run("endpoint", "revoke", "--yes", "\(pc.id)")
        await #expect(throws: (any Error).self) { try await relayd.run("account", "disable", "Nobody") }
        #if os(Linux)
        kill(try #require(relayd.processIdentifier), SIGHUP)
        while try !String(contentsOf: log, encoding: .utf8).contains("reloaded the push credentials") {
            try await Task.sleep(for: .milliseconds(10))
        }
        #endif
        let backup = FileManager.default.temporaryDirectory.appending(path: "log-\(UUID().uuidString).tar")
        defer { try? FileManager.default.removeItem(at: backup) }
        _ = try await relayd.run("backup", backup.path)
        #expect(try await relayd.stop() == 0)
        return try String(contentsOf: log, encoding: .utf8)
    }

    @Test(arguments: ["text", "json"]) func theLogSaysWhoDidWhat(format: String) async throws {
        let log = try await day(format: format)
        let lines = log.split(separator: "\n").map(String.init)
        func count(_ message: String, _ fields: [(String, String)]) -> Int {
            lines.count { line in
                switch format {
                case "json":
                    guard let object = try? JSONDecoder().decode([String: String].self, from: Data(line.utf8)) else { return false }
                    return object["message"] == message && fields.allSatisfy { object[$0.0] == $0.1 }
                default:
                    let shown = fields.map { name, value in
                        let isBare = value.allSatisfy { $0.isLetter || $0.isNumber || "-._:/@+".contains($0) }
                        return " \(name)=" + (isBare ? value : "\"" + value.replacing("\"", with: "\\\"") + "\"")
                    }
                    return "\(line) ".contains(" \(message) ") && shown.allSatisfy { "\(line) ".contains("\($0) ") }
                }
            }
        }
        let account = ("account", Self.name)
        #expect(count("account added", [account, ("by", "operator")]) == 1)
        #expect(count("signed in", [account, ("method", "joinLink"), ("address", "127.0.0.1")]) == 3)
        #expect(count("device joined", [account, ("address", "127.0.0.1")]) == 2)
        #expect(count("device joined", [("device", "Phone")]) == 1)
        #expect(count("device approved", [account]) == 1)
        #expect(count("sign-in failed", [("method", "joinLink"), ("reason", "wrongCredentials"), ("address", "127.0.0.1")]) == 1)
        #expect(count("sign-in failed", [account, ("method", "password"), ("reason", "wrongCredentials")]) == 1)
        #expect(count("signed in", [account, ("method", "password")]) == 1)
        #expect(count("device revoked", [account, ("by", "operator")]) == 1)
        #expect(count("operator command", [("command", "invite")]) == 3)
        #expect(count("operator command failed", [("command", "account disable"), ("account", "Nobody")]) == 1)
        #expect(count("operator command", [("command", "backup")]) == 1)
        #expect(count("relay stopping", []) == 1)
        #expect(count("relay stopped", []) == 1 && lines.last?.contains("relay stopped") == true)
        #expect(!log.contains("correct horse battery") && !log.contains("invite=") && !log.contains("example.org/private"))
        // The first hello of each device asks for its account, and is not refused.
        #expect(count("device refused", [("reason", "wrongAccount")]) == 0)
    }

    /// A line without its values.
    private struct Shape: Hashable {
        var level: String
        var message: String
        var fields: Set<String>

        init?(text line: some StringProtocol) {
            guard let match = String(line).wholeMatch(of: /\S+ (\w+) (.*?)((?: \w+=(?:"(?:[^"\\]|\\.)*"|[^" ]+))*)/) else { return nil }
            level = String(match.1)
            message = String(match.2)
            fields = Set(match.3.matches(of: #/ (\w+)=(?:"(?:[^"\\]|\\.)*"|[^" ]+)/#).map { String($0.1) })
        }

        init?(json line: some StringProtocol) {
            guard var object = try? JSONDecoder().decode([String: String].self, from: Data(line.utf8)),
                object.removeValue(forKey: "time") != nil, let level = object.removeValue(forKey: "level"),
                let message = object.removeValue(forKey: "message")
            else { return nil }
            self.level = level
            self.message = message
            fields = Set(object.keys)
        }
    }

    /// The lines of the documents, of one format.
    private func documentedLines(_ format: String) throws -> [Substring] {
        let file = URL(filePath: #filePath).appending(path: "../../../../docs/relay.md").standardizedFileURL
        let section = try String(contentsOf: file, encoding: .utf8).split(separator: "\n## ").first { $0.hasPrefix("The log\n") }
        let block = section?.split(separator: "```\(format)\n").dropFirst().first?.split(separator: "\n```").first
        return try #require(block).split(separator: "\n")
    }

    /// The documents show what a day of use leaves in the log.
    @Test(arguments: ["text", "json"]) func theDocumentsShowTheLog(format: String) async throws {
        // The commands of the operator write to the same file.
        let log = try await day(format: format).split(separator: "\n").filter { !$0.hasPrefix("relayd: ") }
        let shape: (Substring) -> Shape? = { format == "json" ? Shape(json: $0) : Shape(text: $0) }
        let real = Set(log.compactMap(shape))
        #expect(log.allSatisfy { shape($0) != nil })
        let documented = try documentedLines(format).map { try #require(shape($0), "\($0)") }
        #expect(!documented.isEmpty)
        for line in documented {
            #expect(real.contains(line), "\(line) is in the documents, but not in the log:\n\(log.joined(separator: "\n"))")
        }
        // And nothing else happens.
        let messages = Set(try documentedLines("text").compactMap { Shape(text: $0)?.message })
        #expect(Set(real.map(\.message)).isSubset(of: messages), "\(Set(real.map(\.message)).subtracting(messages))")
    }

    /// The filter of the documents, by fail2ban itself.
    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/fail2ban-regex")),
        arguments: ["text", "json"]
    )
    func fail2banFindsTheFailedSignIns(format: String) async throws {
        let log = FileManager.default.temporaryDirectory.appending(path: "log-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: log) }
        try Data(try await day(format: format).utf8).write(to: log)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/fail2ban-regex")
        process.arguments = ["--print-all-matched", log.path, Self.filter.path]
        let text = try await ProcessRun.run(process).output
        #expect(text.contains(" 2 matched"), "\(text)")
        let matched = text.split(separator: "\n").filter { $0.contains("sign-in failed") && $0.contains("method") }
        #expect(matched.count == 2)
    }
}
