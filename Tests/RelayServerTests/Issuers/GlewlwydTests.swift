// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// An OpenID Connect provider that others wrote, run by `scripts/glewlwyd.py`.
@Suite(
    .timeLimit(.minutes(10)),
    .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/glewlwyd"), "needs Debian's package glewlwyd")
) final class GlewlwydTests {
    private struct Start: Decodable {
        var issuer: String
        var client: String
        var secret: String
        var token: String
    }

    private let directory = FileManager.default.temporaryDirectory.appending(path: "glewlwyd-\(UUID().uuidString)")
    private let input = ProcessStart.alone { Pipe() }
    private let output: FileHandle
    private let start: Start

    init() async throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        let script = URL(filePath: #filePath).appending(path: "../../../../scripts/glewlwyd.py").standardizedFileURL
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        let python = ProcessInfo.processInfo.environment["DEVICE_RELAY_PYTHON"] ?? "python3"
        process.arguments = [python, script.path, directory.path, "\(try FreePort.take())"]
        process.standardInput = input
        output = try ProcessStart.reading(process)
        let line = try await RelaydProcess.lines(of: output, 1).first ?? ""
        start = try JSONDecoder().decode(Start.self, from: Data(line.utf8))
    }

    deinit {
        // The script ends the provider.
        try? input.fileHandleForWriting.close()
        try? FileManager.default.removeItem(at: directory)
    }

    /// - Parameter members: Of the issuer's object, beside its name and audience.
    /// - Parameter log: Where its log goes.
    private func relayd(_ members: String, log: URL? = nil) async throws -> RelaydProcess {
        let file = directory.appending(path: "issuers.json")
        // It writes the scopes into `aud`, and names a client that acts for itself by `client_id` only.
        let issuer =
            #"{"issuer":"\#(start.issuer)","audience":{"scope":"relay.device.register"},"accountClaim":"client_id","#
            + #""autoProvision":true\#(members)}"#
        try Data(#"{"embedded":false,"issuers":[\#(issuer)]}"#.utf8).write(to: file)
        let relayd = try await RelaydProcess(arguments: ["--issuers-file", file.path])
        if let log {
            #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
            relayd.standardError = try FileHandle(forWritingTo: log)
        }
        _ = try await relayd.start()
        return relayd
    }

    @Test func signedTokenIsAccepted() async throws {
        let relayd = try await relayd("")
        let phone = WireEndpoint("Phone", at: relayd)
        phone.token = start.token
        try await phone.connect()
        guard case .ok = try await phone.publish("org.example.player") else { throw WireEndpoint.Unexpected(message: "not published") }
        phone.token = String(start.token.dropLast(8)) + "AAAAAAAA"
        guard case .rejected(let rejected) = try await phone.greet(role: .host).1 else { throw WireEndpoint.Unexpected(message: "let in") }
        #expect(rejected.code == .tokenInvalid)
        #expect(try await relayd.stop() == 0)
    }

    /// It is named at the start, and then once a minute however many tokens come.
    @Test func wrongSecretOfTheRelayIsNamed() async throws {
        let (secret, log) = (directory.appending(path: "secret").path, directory.appending(path: "log"))
        #expect(
            FileManager.default.createFile(atPath: secret, contents: Data("b7d1e6-canary".utf8), attributes: [.posixPermissions: 0o600])
        )
        let members = #","mode":"introspection","clientID":"\#(start.client)","clientSecretFile":"\#(secret)""#
        let relayd = try await relayd(members, log: log)
        func lines() throws -> [String] {
            try String(contentsOf: log, encoding: .utf8).split(separator: "\n").map(String.init)
                .filter { $0.contains(" error an issuer refuses this relay's clientID or secret; correct its entry in the issuers file ") }
        }
        while try lines().isEmpty { try await Task.sleep(for: .milliseconds(10)) }
        #expect(try lines().first?.contains(start.issuer) == true)
        let phone = WireEndpoint("Phone", at: relayd)
        for number in 0..<3 {
            phone.token = number == 0 ? start.token : start.token + "\(number)"
            guard case .rejected(let rejected) = try await phone.greet(role: .host).1 else {
                throw WireEndpoint.Unexpected(message: "let in")
            }
            #expect(rejected.code == .issuerUnavailable)
        }
        #expect(try lines().count == 1)
        #expect(try !String(contentsOf: log, encoding: .utf8).contains("b7d1e6-canary"))
        #expect(try await relayd.stop() == 0)
    }

    @Test func revokedTokenEndsItsChannel() async throws {
        let secret = directory.appending(path: "secret").path
        #expect(FileManager.default.createFile(atPath: secret, contents: Data(start.secret.utf8), attributes: [.posixPermissions: 0o600]))
        let credentials = #""clientID":"\#(start.client)","clientSecretFile":"\#(secret)""#
        let relayd = try await relayd(#","mode":"introspection","recheckSeconds":1,\#(credentials)"#)
        let phone = WireEndpoint("Phone", at: relayd)
        phone.token = start.token
        try await phone.connect()
        try input.fileHandleForWriting.write(contentsOf: Data("revoke \(start.token)\n".utf8))
        _ = try await RelaydProcess.lines(of: output, 1)
        let code = try await phone.event { if case .authInvalidated(let invalidated) = $0 { invalidated.code } else { nil } }
        #expect(code == .tokenRevoked)
        #expect(await phone.closeCode() == 1008)
        #expect(try await relayd.stop() == 0)
    }
}
