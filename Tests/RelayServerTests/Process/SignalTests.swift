// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayTesting
import Synchronization
import Testing

/// What signals do to a real relay while it starts, runs and stops.
@Suite(.timeLimit(.minutes(10))) final class SignalTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "signals-\(UUID().uuidString)")
    private var data: String { directory.path + "/data" }
    private var log: URL { directory.appending(path: "log") }
    private var settings: URL { directory.appending(path: "settings.json") }
    private static let harmless = [SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE]

    init() throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        try write(settings: #"{"logLevel": "notice"}"#)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    private func write(settings text: String) throws { try Data(text.utf8).write(to: settings) }

    private func start(_ arguments: String...) throws -> (Process, FileHandle) {
        let process = RelaydProcess.process(
            ["serve", "--listen", "127.0.0.1:0", "--tunnel-listen", "off", "--data-directory", data, "--config", settings.path] + arguments
        )
        process.standardError = try FileHandle(forWritingTo: log)
        return (process, try ProcessStart.reading(process))
    }

    /// Waits until the process ignores or handles a signal, as the kernel says.
    private func awaitHandling(of number: Int32, in process: Process) async throws {
        let bit = UInt64(1) << UInt64(number - 1)
        while process.isRunning {
            let status = (try? String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)) ?? ""
            let masks = status.split(separator: "\n").filter { $0.hasPrefix("SigIgn:") || $0.hasPrefix("SigCgt:") }
            if masks.contains(where: { UInt64($0.dropFirst(7).filter { !$0.isWhitespace }, radix: 16).map { $0 & bit != 0 } ?? false }) {
                return
            }
            await Task.yield()
        }
        throw RelaydProcess.Failed(message: "it has ended")
    }

    private func logged(_ text: String) async throws {
        while try !String(contentsOf: log, encoding: .utf8).contains(text) { try await Task.sleep(for: .milliseconds(10)) }
    }

    @Test func harmlessSignalsEndNoRelayThatStartsRunsOrStops() async throws {
        let (process, output) = try start()
        for number in Self.harmless { try await awaitHandling(of: number, in: process) }
        for number in Self.harmless { kill(process.processIdentifier, number) }
        let ready = try await RelaydProcess.lines(of: output, 1)
        #expect(ready.first?.contains(" ready at ") == true)
        for number in Self.harmless { kill(process.processIdentifier, number) }
        // A signal of the start may have come before the settings were read, and is then not counted.
        try await logged("reloaded the log level")
        kill(process.processIdentifier, SIGTERM)
        while process.isRunning {
            for number in Self.harmless where process.isRunning { kill(process.processIdentifier, number) }
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == 0)
    }

    @Test(arguments: [SIGTERM, SIGINT]) func aRelayStopsInOrder(number: Int32) async throws {
        let (process, output) = try start()
        _ = try await RelaydProcess.lines(of: output, 1)
        kill(process.processIdentifier, number)
        try await ProcessRun.end(of: process)
        #expect(process.terminationReason == .exit && process.terminationStatus == 0)
    }

    /// A stop that came while the relay started.
    @Test func aRelayThatStartsStops() async throws {
        let (process, _) = try start()
        try await awaitHandling(of: SIGTERM, in: process)
        kill(process.processIdentifier, SIGTERM)
        try await ProcessRun.end(of: process)
        #expect(process.terminationReason == .exit && process.terminationStatus == 0)
    }

    /// All other commands end by the signal, from their first instruction.
    @Test func otherCommandsEndByASignal() async throws {
        let process = RelaydProcess.process(["token", "revoke", "--data-directory", data])
        // It waits for the token.
        process.standardInput = ProcessStart.alone { Pipe() }
        _ = try ProcessStart.reading(process)
        try await awaitHandling(of: SIGUSR1, in: process)
        kill(process.processIdentifier, SIGTERM)
        try await ProcessRun.end(of: process)
        #expect(process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGTERM)
    }

    @Test func hangUpReloadsEachPartAndSaysSo() async throws {
        let issuers = directory.appending(path: "issuers.json")
        try Data(#"{"issuers": []}"#.utf8).write(to: issuers)
        let (process, output) = try start("--issuers-file", issuers.path)
        defer { process.terminate() }
        _ = try await RelaydProcess.lines(of: output, 1)
        try write(settings: #"{"logLevel": "debug", "idleSeconds": 7}"#)
        try Data(#"{"issuers": [{"issuer": "https://login.example", "audience": "relay"}]}"#.utf8).write(to: issuers)
        kill(process.processIdentifier, SIGHUP)
        try await logged("reloaded the log level logLevel=debug")
        try await logged("reloaded the issuers count=2")
        try await logged("reloaded the push credentials")
        try await logged("a changed setting needs a restart setting=idleSeconds")

        try write(settings: #"{"logLevel": "loud"}"#)
        try Data("{".utf8).write(to: issuers)
        kill(process.processIdentifier, SIGHUP)
        try await logged("the old settings stay reason=\"logLevel: 'loud' is not one of")
        try await logged("the old issuers stay reason=")
        #expect(process.isRunning)
    }
}
#endif
