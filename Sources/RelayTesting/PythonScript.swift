// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// A script of `scripts/` that runs beside a test, with the packages that `scripts/test` installs. It ends when its standard input does.
/// For tests only.
package final class PythonScript: Sendable {
    private static let python = ProcessInfo.processInfo.environment["DEVICE_RELAY_PYTHON"]
    package static var isAvailable: Bool { python != nil }

    /// Whether a command of a Debian package is installed.
    package static func has(_ command: String) -> Bool { FileManager.default.isExecutableFile(atPath: "/usr/bin/\(command)") }

    private let process: Process
    private let input: FileHandle
    private let output: FileHandle

    package init(_ name: String, _ arguments: [String]) throws {
        process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        let script = URL(filePath: #filePath).appending(path: "../../../scripts/\(name)").standardizedFileURL
        process.arguments = [Self.python ?? "python3", script.path] + arguments
        let pipe = ProcessStart.alone { Pipe() }
        process.standardInput = pipe
        input = pipe.fileHandleForWriting
        output = try ProcessStart.reading(process)
    }

    deinit { try? input.close() }

    /// The next line that it prints, as JSON.
    package func answer<Answer: Decodable>(_: Answer.Type = Answer.self) async throws -> Answer {
        let line = try await RelaydProcess.lines(of: output, 1).first ?? ""
        return try JSONDecoder().decode(Answer.self, from: Data(line.utf8))
    }

    /// Writes a line that has no answer.
    package func write(_ line: String) throws { try input.write(contentsOf: Data((line + "\n").utf8)) }

    /// Writes a line.
    /// - Returns: The line that answers it.
    @discardableResult
    package func ask(_ line: String) async throws -> String {
        try input.write(contentsOf: Data((line + "\n").utf8))
        return try await RelaydProcess.lines(of: output, 1).first ?? ""
    }

    /// Writes a line, and reads the line that answers it, as JSON.
    package func answer<Answer: Decodable>(_: Answer.Type = Answer.self, to line: String) async throws -> Answer {
        try input.write(contentsOf: Data((line + "\n").utf8))
        return try await answer()
    }

    /// Waits for its end. It says on standard error what failed.
    /// - Returns: The exit status.
    package func end() async throws -> Int32 {
        // It may print more than fits into the pipe.
        Thread.detachNewThread { [output] in _ = try? output.readToEnd() }
        return try await ProcessRun.end(of: process)
    }
}

extension RelaydProcess {
    /// Adds an account to the running relay.
    /// - Returns: The link with which the account's owner chooses a password.
    package func add(account name: String) async throws -> String {
        _ = try await run("account", "add", name)
        return try await run("account", "set-up", name)
    }
}
