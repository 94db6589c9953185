// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting

/// A separate device for `relay`, with its own home and system key.
final class TestDevice {
    let directory: URL
    var home: String { directory.path + "/home" }
    /// Variables of its commands, in addition to or instead of the usual ones.
    var variables: [String: String] = [:]

    init(in place: URL = FileManager.default.temporaryDirectory) throws {
        directory = place.appending(path: "relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    var environment: [String: String] {
        [
            "HOME": directory.path, "XDG_CONFIG_HOME": directory.path + "/config", "PATH": "/usr/bin:/bin", "TZ": "UTC",
            // Tests of paths through the relay must not find a way around it.
            "DEVICE_RELAY_NEARBY": "off",
        ]
        .merging(variables) { _, new in new }
    }

    func start(_ arguments: String...) throws -> RelayProcess { try start(arguments) }

    private func start(_ arguments: [String]) throws -> RelayProcess {
        try RelayProcess(arguments + ["--home", home], environment: environment, owner: self)
    }

    /// Starts a command with standard input.
    func startReading(_ arguments: String...) throws -> RelayProcess { try startReading(arguments) }

    func startReading(_ arguments: [String]) throws -> RelayProcess {
        try RelayProcess(arguments + ["--home", home], environment: environment, hasInput: true, owner: self)
    }

    #if os(Linux)
    /// Starts a command at its own terminal, which shows both of its outputs.
    func startAtTerminal(_ arguments: String...) throws -> RelayProcess { try startAtTerminal(arguments) }

    func startAtTerminal(_ arguments: [String]) throws -> RelayProcess {
        let relay = Project.products.appending(path: "relay").path
        let line = ([relay] + arguments + ["--home", home]).map { "'\($0)'" }.joined(separator: " ")
        // util-linux's `script` provides the terminal.
        return try RelayProcess(
            ["-qefc", line, "/dev/null"],
            executable: URL(filePath: "/usr/bin/script"),
            environment: environment,
            hasInput: true,
            owner: self
        )
    }

    /// Starts a join at a terminal, and types the link at its prompt.
    func startJoin(typing link: String) async throws -> RelayProcess {
        let join = try startAtTerminal("join", "--name", "Desk")
        _ = try await join.line { $0.contains("Paste the join link") }
        try join.write(link + "\n")
        return join
    }
    #endif

    /// Runs a command to its end.
    func relay(_ arguments: String...) async throws -> CommandOutput { try await run(arguments) }

    func run(
        _ arguments: [String],
        withHome: Bool = true,
        adding variables: [String: String] = [:]
    ) async throws -> CommandOutput {
        let environment = environment.merging(variables) { $1 }
        return try await RelayProcess(arguments + (withHome ? ["--home", home] : []), environment: environment, owner: self).finish()
    }

    /// Starts a command whose output is closed after the first line.
    func startForOneLine(_ arguments: String...) throws -> RelayProcess {
        try RelayProcess(arguments + ["--home", home], environment: environment, firstLineOnly: true, owner: self)
    }

    /// Writes the settings of `relay agent`.
    func setAgent(_ settings: String) throws {
        try Data(settings.utf8).write(to: URL(filePath: home + "/agent.yaml"))
    }

    /// Starts an agent, and waits until it is published.
    func agent(_ settings: String = "") async throws -> RelayProcess {
        try setAgent(settings)
        let process = try start("agent", "--json")
        _ = try await process.line { $0.contains(#""event":"ready""#) }
        return process
    }

    /// Starts a host, and waits until it is published.
    func host(_ arguments: String...) async throws -> RelayProcess {
        let process = try start(["host", "--json"] + arguments)
        _ = try await process.line { $0.contains(#""event":"hosting""#) }
        return process
    }
}

/// A real relay with one account, and the devices that join it.
final class TestAccount {
    let relay: RelaydProcess
    private let issuersFile: URL

    /// - Parameters:
    ///   - port: The relay's; `nil` for any.
    ///   - networks: Further addresses of this machine that lead to the relay.
    ///   - arguments: Flags of the relay.
    ///   - issuers: The content of the relay's file of trusted issuers.
    init(port: Int? = nil, networks: [String] = [], arguments: [String] = [], issuers: String? = nil) async throws {
        issuersFile = FileManager.default.temporaryDirectory.appending(path: "issuers-\(UUID().uuidString).json")
        if let issuers { try Data(issuers.utf8).write(to: issuersFile) }
        let file = issuers == nil ? [] : ["--issuers-file", issuersFile.path]
        relay = try await RelaydProcess(port: port, networks: networks, arguments: arguments + file)
        _ = try await relay.start()
        _ = try await relay.run("account", "add", "Anna")
    }

    deinit { try? FileManager.default.removeItem(at: issuersFile) }

    func link() async throws -> String { try await relay.run("invite", "Anna") }

    /// A device with an app in the test process.
    func app(_ app: RemoteSystemAppRegistration, on name: String) async throws -> TestApp {
        try await TestApp(app, on: name, of: self)
    }

    struct Refused: Error {
        var message: String
    }

    /// A joined device.
    func device(named name: String, in place: URL = FileManager.default.temporaryDirectory) async throws -> TestDevice {
        let device = try TestDevice(in: place)
        let output = try await device.relay("join", try await link(), "--name=\(name)")
        guard output.status == 0 else { throw Refused(message: output.errorText) }
        return device
    }
}
