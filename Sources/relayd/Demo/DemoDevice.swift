// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// A device of the demo: a directory that stands for a machine, and the `relay` commands that run there.
struct DemoDevice: Sendable {
    /// The label on the screen.
    let label: String
    let name: String
    let directory: URL
    let relay: URL
    let screen: DemoScreen

    init(_ label: String, name: String, below directory: URL, relay: URL, screen: DemoScreen) throws {
        self.label = label
        self.name = name
        self.directory = directory.appending(path: label)
        self.relay = relay
        self.screen = screen
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
    }

    private var environment: [String: String] {
        var environment = ProcessInfo.processInfo.environment.filter {
            ["PATH", "TERM", "LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "TMPDIR", "NO_COLOR", "LD_LIBRARY_PATH"].contains($0.key)
        }
        // The system key lies below `HOME`, so each directory is a different device.
        environment["HOME"] = directory.path
        environment["DEVICE_RELAY_HOME"] = directory.appending(path: "relay").path
        return environment
    }

    /// Starts a long-running command.
    func start(_ arguments: String..., isShown: Bool = true) throws -> DemoProcess {
        if isShown { try screen.command(label, ["relay"] + arguments) }
        return try DemoProcess(relay, arguments, environment: environment, in: directory)
    }

    /// Runs a command to its end and prints its output.
    /// - Throws: `DemoFailure` if the exit status is not 0.
    @discardableResult
    func run(_ arguments: String..., showsProgress: Bool = false, maximumLines: Int = 8) async throws -> [String] {
        try screen.command(label, ["relay"] + arguments)
        let process = try DemoProcess(relay, arguments, environment: environment, in: directory, showsProgress: showsProgress)
        let (status, output, error) = await process.finish()
        for line in output.prefix(maximumLines) { try screen.line(label, line) }
        if output.count > maximumLines { try screen.seen(label, "… (\(output.count - maximumLines) more)") }
        guard status == 0 else { throw DemoFailure("`relay \(arguments.first ?? "")` ended with \(status): \(error)") }
        return output
    }
}
