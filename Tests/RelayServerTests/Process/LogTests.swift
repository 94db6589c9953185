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
                    return line.contains(" \(message) ") && shown.allSatisfy { "\(line) ".contains("\($0) ") }
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
        #expect(!log.contains("correct horse battery") && !log.contains("invite="))
        // The first hello of each device asks for its account, and is not refused.
        #expect(count("device refused", [("reason", "wrongAccount")]) == 0)
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
        process.standardError = FileHandle.nullDevice
        let output = try ProcessStart.reading(process)
        let text = String(decoding: try output.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        #expect(text.contains(" 2 matched"), "\(text)")
        let matched = text.split(separator: "\n").filter { $0.contains("sign-in failed") && $0.contains("method") }
        #expect(matched.count == 2)
    }
}
