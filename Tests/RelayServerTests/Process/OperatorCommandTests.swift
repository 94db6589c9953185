// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import RelayProtocol
import RelayServer
import RelayTesting
import Testing

/// What an operator types beside the relay, and what it answers.
@Suite(.timeLimit(.minutes(10))) final class OperatorCommandTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "relayd-\(UUID().uuidString)")

    deinit { try? FileManager.default.removeItem(at: directory) }

    private func run(_ arguments: String...) async throws -> RelaydProcess.Ended {
        try await RelaydProcess.run(arguments + ["--data-directory", directory.path])
    }

    // MARK: Links

    @Test(arguments: [RelaydProcess.Security.plain, .ownCertificate])
    func linkNamesTheRunningRelay(security: RelaydProcess.Security) async throws {
        let relayd = try await RelaydProcess(security, directory: directory)
        _ = try await relayd.start()
        let ended = try await run("invite")
        #expect(ended.status == 0, "\(ended.error)")
        #expect(ended.output.hasPrefix("\(relayd.origin)/#relay="))
        // The own key is known by the id alone.
        #expect(security == .plain ? ended.error.isEmpty : ended.error.contains("relay login '\(relayd.origin)/#relay="))
        if security == .plain {
            let phone = WireEndpoint("Phone", at: relayd)
            try await phone.join(ended.output.trimmingCharacters(in: .whitespacesAndNewlines))
            try await phone.connect()
        }
        // An address that the relay would refuse is none.
        let refused = try await run("invite", "--url", "https://elsewhere.example")
        #expect(refused.status == 2)
        #expect(refused.error.contains("is not known as https://elsewhere.example"))
        #expect(try await relayd.stop() == 0)
        #expect(try FileManager.default.attributesOfItem(atPath: directory.path + "/serving.json")[.posixPermissions] as? Int == 0o600)
    }

    /// As the front page has it: every address of the machine, on a port of its own, with a certificate over the relay's key.
    @Test func aLinkNamesSchemeHostAndPortOfARelayOnAllAddresses() async throws {
        let port = try await RelaydProcess().port
        let serve = RelaydProcess.process([
            "serve", "--listen", "0.0.0.0:\(port)", "--tunnel-listen", "off", "--data-directory", directory.path, "--log-level", "warning",
        ])
        let output = try ProcessStart.reading(serve)
        defer { serve.terminate() }
        // The ready line, the join link, and the set-up link.
        let made = try #require(try await RelaydProcess.lines(of: output, 3).dropFirst().first)
        let ended = try await run("invite")
        #expect(ended.status == 0, "\(ended.error)")
        let origin = try #require(ended.output.split(separator: "/#").first)
        #expect(origin.hasPrefix("https://"))
        #expect(origin.hasSuffix(":\(port)"))
        #expect(made.contains("\(origin)/#relay="))
    }

    @Test func linkNamesTheLastAddressWhenNoRelayRuns() async throws {
        let relayd = try await RelaydProcess(directory: directory)
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        let ended = try await run("invite")
        #expect(ended.status == 0)
        #expect(ended.output.hasPrefix("\(relayd.origin)/#relay="))
        #expect(ended.error.contains("no relay runs on"))
        // Killed, it leaves its file as it is.
        _ = try await relayd.start()
        try await relayd.kill()
        #expect(try await run("invite").error.contains("no relay runs on"))
    }

    @Test func inviteFailsWithoutAnyAddress() async throws {
        #expect(try await run("account", "add", "Anna").status == 0)
        let refused = try await run("invite")
        #expect(refused.status == 2)
        #expect(refused.output.isEmpty)
        #expect(refused.error.contains("no relay has run on"))
        #expect(try await run("invite", "--url", "https://relay.example").output.hasPrefix("https://relay.example/#"))
    }

    // MARK: The data directory

    @Test(arguments: [["account", "list"], ["invite"], ["backup", "/tmp/never.tar"]])
    func commandsDoNotCreateAMissingDataDirectory(command: [String]) async throws {
        let refused = try await RelaydProcess.run(command + ["--data-directory", directory.path])
        #expect(refused.status == 2)
        #expect(refused.output.isEmpty)
        #expect(refused.error.contains("no relay's data at \(directory.path)"))
        #expect(!FileManager.default.fileExists(atPath: directory.path))
        // An empty one is not filled either.
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        #expect(try await RelaydProcess.run(command + ["--data-directory", directory.path]).status == 2)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).isEmpty)
    }

    @Test(arguments: [0o777, 0o770, 0o702, 0o1777], [["serve"], ["account", "list"], ["account", "add", "Anna"], ["restore", "x.tar"]])
    func directoryWritableByOthersIsRejected(mode: Int, command: [String]) async throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: directory.path)
        let refused = try await RelaydProcess.run(command + ["--data-directory", directory.path])
        #expect(refused.status == 2)
        #expect(refused.error.contains("chmod go-w"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).isEmpty)
    }

    /// A restore holds it while it replaces the files, the key among them.
    @Test func relayReadsNothingOfALockedDirectory() async throws {
        let lock = try StoreLock(directory: directory.path)
        let refused = try await run("serve", "--listen", "127.0.0.1:\(try await RelaydProcess().port)", "--tunnel-listen", "off")
        #expect(refused.status == 1)
        #expect(refused.error.contains("another relay uses"), "\(refused.error)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["relay.lock"])
        withExtendedLifetime(lock) {}
    }

    // MARK: Accounts

    @Test func accountNamesAreUniqueAndPrintable() async throws {
        #expect(try await run("account", "add", "Anna").status == 0)
        let taken = try await run("account", "add", "Anna")
        #expect(taken.status == 1)
        #expect(taken.error.contains("of this name already"))
        for name in ["An\nna", "\u{1B}[2J", "\u{202E}anna", " "] {
            #expect(try await run("account", "add", name).status == 1)
        }
        #expect(try await run("account", "list").output.split(separator: "\n").count == 1)
    }

    @Test func setUpLinkBeforeTheFirstStartNeedsAnAddress() async throws {
        let refused = try await run("account", "add", "Anna", "--set-up")
        #expect(refused.status == 2 && refused.error.contains("give --url"), "\(refused.error)")
        // Nothing was begun.
        #expect(!FileManager.default.fileExists(atPath: directory.path))
        let added = try await run("account", "add", "Anna", "--set-up", "--url", "https://relay.example")
        #expect(added.status == 0 && added.output.contains("https://relay.example"), "\(added.error)")
    }

    // MARK: Output

    @Test(arguments: [
        ["account", "list"], ["account", "export", "Anna"], ["resource-server", "add", "photos"], ["limits"], ["--help"], ["--version"],
        ["backup", "FILE"],
    ])
    func outputThatIsNotWrittenFailsTheCommand(command: [String]) async throws {
        #expect(try await run("account", "add", "Anna").status == 0)
        let words = command.map { $0 == "FILE" ? directory.path + "/backup.tar" : $0 }
        let more = command.contains { $0.hasPrefix("--") } ? [] : ["--data-directory", directory.path]
        for (target, cause) in [(">/dev/full", "No space left on device"), (">&-", "standard output is closed")] {
            let process = Process()
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments = ["-c", "exec \"$@\" \(target)", "sh", RelaydProcess.executable.path] + words + more
            let ended = try await ProcessRun.run(process)
            #expect(ended.status == 1, "\(command) \(target)")
            #expect(ended.error == "relayd: cannot write the output: \(cause)\n", "\(command) \(target)")
            try? FileManager.default.removeItem(atPath: directory.path + "/backup.tar")
        }
    }

    // MARK: What is served

    @Test(arguments: ["foo", "foo.invalid:8080", "203.0.113.7:0"]) func listenAddressOfAnotherMachineIsRejected(address: String)
        async throws
    {
        let refused = try await run("serve", "--listen", address)
        #expect(refused.status == 1)
        #expect(refused.error.contains("is not an address of this machine"), "\(refused.error)")
        #expect(refused.error.contains("--listen"))
        // Nothing was begun.
        #expect(!FileManager.default.fileExists(atPath: directory.path))
    }

    @Test func certificateForAnotherNameIsLoggedAtStart() async throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let key = RelayKey()
        let (certificate, file) = (directory.path + "/certificate.pem", directory.path + "/key.pem")
        try Data(try TLSContext.certificatePEM(over: key).utf8).write(to: URL(filePath: certificate))
        try Data(key.privateKey.pemRepresentation.utf8).write(to: URL(filePath: file))
        let log = directory.appending(path: "log")
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        let relayd = try await RelaydProcess(
            directory: directory,
            arguments: ["--certificate-file", certificate, "--key-file", file, "--url", "https://relay.example"]
        )
        relayd.standardError = try FileHandle(forWritingTo: log)
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        #expect(try String(contentsOf: log, encoding: .utf8).contains("the certificate is not for relay.example"))
    }
}
