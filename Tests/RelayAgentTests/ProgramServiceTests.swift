// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import DeviceRelayTesting
import Foundation
import RelayProtocol
import Synchronization
import Testing

@testable import RelayAgent

/// The agent's programs as services of a device in this process, called over a real relay.
@Suite(.timeLimit(.minutes(10))) struct ProgramServiceTests {
    private typealias Configuration = AgentConfiguration.ServiceConfiguration

    private func shell(_ script: String) -> Program { Program(arguments: ["/bin/sh", "-c", script]) }

    /// Calls each service once, and returns its answer as JSON, or its error.
    private func call(
        _ services: [String: Configuration],
        isConfirmed: Bool = true,
        _ names: [String]
    ) async throws -> (answers: [String], log: [String]) {
        let running = RunningPrograms()
        let lines = LogLines()
        let app = RemoteSystemAppRegistration(
            appID: AgentConfiguration.appID,
            displayName: "Agent",
            services: services.map { name, configuration in
                ProgramService(
                    name: name,
                    configuration: configuration,
                    environment: ProgramEnvironment(),
                    running: running,
                    log: { lines.add($0) },
                    note: { lines.add($0) }
                ).service
            }
        )
        let answers = try await withTestRelay { relay in
            _ = try await relay.platform(named: "PC", publishing: app)
            let phone = try await relay.platform(named: "Phone", isConfirmed: isConfirmed)
            var pc: RemoteSystem?
            for await systems in phone.remoteSystems().snapshots {
                pc = systems.first { $0.apps.contains { $0.appID == app.appID } }
                if pc != nil { break }
            }
            let system = try #require(pc)
            var answers: [String] = []
            for name in names {
                do {
                    let connection = try await phone.openAppService(.init(name: name, appID: app.appID), on: .init(system))
                    defer { connection.close() }
                    answers.append(try await connection.send(["a": 1]).json())
                } catch let error as AppServiceError {
                    answers.append("\(error.code)")
                }
            }
            return answers
        }
        return (answers, lines.all)
    }

    private final class LogLines: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }
        func add(_ line: String) { lines.withLock { $0.append(line) } }
    }

    @Test func answerIsWhatTheProgramPrints() async throws {
        let (answers, log) = try await call(
            [
                "echo": .init(command: shell("cat")),
                "name": .init(command: shell(#"printf '{"n":"%s %s"}' "$DEVICE_RELAY_SERVICE" "$DEVICE_RELAY_DEVICE_NAME""#)),
                "lines": .init(command: shell("while read -r line; do echo \"$line\"; done"), mode: .lines),
                "fails": .init(command: shell("printf 'why\\033[31m\\n' >&2; exit 3")), "text": .init(command: shell("echo hello")),
                "slow": .init(command: shell("exec sleep 600"), timeout: .milliseconds(200)),
                "missing": .init(command: Program(arguments: ["/no/such"])),
                "much": .init(command: shell("exec yes")),
                "secret": .init(command: shell(#"printf '{"s":"%s"}' "$MY_SECRET_OF_THE_AGENT""#)),
            ],
            ["echo", "name", "lines", "fails", "text", "slow", "missing", "much", "secret"]
        )
        #expect(
            answers == [
                #"{"a":1}"#, #"{"n":"name Phone"}"#, #"{"a":1}"#, "failure", "failure", "timedOut", "appUnavailable", "messageTooLarge",
                #"{"s":""}"#,
            ]
        )
        #expect(log.contains("fails: why\u{FFFD}[31m") && log.contains { $0.contains("/no/such") })
    }

    @Test func onlyTheNamedDevicesMayCall() async throws {
        let other = RemoteSystem.ID(SystemID(digest: Digest256(hashing: Array("another device".utf8))))
        let answers = try await call(
            [
                "all": .init(command: shell("cat")), "others": .init(command: shell("cat"), devices: [other]),
                "none": .init(command: shell("cat"), mode: .lines, devices: []),
            ],
            ["all", "others", "none"]
        ).answers
        #expect(answers == [#"{"a":1}"#, "notAuthorized", "notAuthorized"])
    }

    @Test func newDeviceRunsNoProgram() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "ran-\(UUID().uuidString)").path
        let program = Program(arguments: ["/bin/sh", "-c", #"touch "$0"; cat"#, file])
        let answers = try await call(
            ["one": .init(command: program), "two": .init(command: program, mode: .lines)],
            isConfirmed: false,
            ["one", "two"]
        ).answers
        #expect(answers.allSatisfy { $0 == "notAuthorized" }, "\(answers)")
        #expect(!FileManager.default.fileExists(atPath: file))
    }
}
