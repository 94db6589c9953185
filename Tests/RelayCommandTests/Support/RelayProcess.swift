// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting

/// A process of `relay` or another program, with its output by lines and its exit status. It is killed on deinitialisation.
final class RelayProcess {
    struct Ended: Error {}

    private let process = Process()
    // A `TestDevice` deletes its directory with itself.
    private let owner: AnyObject?
    private let input: Pipe?
    private let lines: AsyncStream<String>
    private let errors: AsyncStream<String>
    private let end: AsyncStream<Int32>

    /// - Parameters:
    ///   - firstLineOnly: Whether its output is closed after the first line. Its exit code is then the last line of standard error.
    ///   - hasInput: Whether its standard input gets what `write` writes. Otherwise standard input is empty.
    ///   - executable: The program; `nil` for `relay`.
    ///   - directory: The working directory; `nil` for that of the tests.
    ///   - owner: Kept as long as the process.
    init(
        _ arguments: [String],
        executable: URL? = nil,
        environment: [String: String],
        directory: URL? = nil,
        firstLineOnly: Bool = false,
        hasInput: Bool = false,
        owner: AnyObject? = nil
    ) throws {
        self.owner = owner
        let relay = executable ?? Project.products.appending(path: "relay")
        if firstLineOnly {
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments = ["-c", #"{ "$0" "$@"; echo "$?" >&2; } | head -n 1"#, relay.path] + arguments
        } else {
            process.executableURL = relay
            process.arguments = arguments
        }
        process.environment = environment
        if let directory { process.currentDirectoryURL = directory }
        let (end, continuation) = AsyncStream.makeStream(of: Int32.self)
        self.end = end
        process.terminationHandler = { process in
            // The exit code by which a shell reports a signal.
            let status = process.terminationStatus
            continuation.yield(process.terminationReason == .exit ? status : 128 + status)
            continuation.finish()
        }
        let pipes = try ProcessStart.alone { [process] in
            let pipes = (input: hasInput ? Pipe() : nil, output: Pipe(), error: Pipe())
            process.standardInput = pipes.input ?? FileHandle.nullDevice
            process.standardOutput = pipes.output
            process.standardError = pipes.error
            try process.run()
            return pipes
        }
        input = pipes.input
        lines = Self.lines(of: pipes.output.fileHandleForReading)
        errors = Self.lines(of: pipes.error.fileHandleForReading)
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        try? input?.fileHandleForWriting.close()
    }

    private static func lines(of file: FileHandle) -> AsyncStream<String> {
        let (stream, continuation) = AsyncStream.makeStream(of: String.self)
        let thread = Thread {
            var rest = Data()
            while true {
                let more = file.availableData
                guard !more.isEmpty else { break }
                rest += more
                while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    continuation.yield(String(decoding: rest[..<end], as: UTF8.self))
                    rest = Data(rest[rest.index(after: end)...])
                }
            }
            // Foundation releases some files never, and crashes beyond 1,360 open ones.
            try? file.close()
            if !rest.isEmpty { continuation.yield(String(decoding: rest, as: UTF8.self)) }
            continuation.finish()
        }
        thread.start()
        return stream
    }

    /// Skips lines of standard output up to the next one that fulfils a condition, and returns that line.
    func line(where matches: (String) -> Bool = { _ in true }) async throws -> String {
        for await line in lines where matches(line) { return line }
        throw Ended()
    }

    /// The next line of standard error that fulfils a condition.
    func errorLine(where matches: (String) -> Bool) async throws -> String {
        for await line in errors where matches(line) { return line }
        throw Ended()
    }

    func write(_ text: String) throws { try input?.fileHandleForWriting.write(contentsOf: Data(text.utf8)) }
    func endInput() throws { try input?.fileHandleForWriting.close() }

    var id: pid_t { process.processIdentifier }

    func send(_ number: Int32) { kill(id, number) }

    /// The rest of both outputs, and the exit code.
    func finish() async -> CommandOutput {
        var output: [String] = []
        var error: [String] = []
        for await line in lines { output.append(line) }
        for await line in errors { error.append(line) }
        var status: Int32 = -1
        for await number in end { status = number }
        return CommandOutput(status: status, output: output, error: error)
    }
}

extension RelayProcess {
    /// Runs a script up to its first failure. Job control gives each job a process group, which ends with the script.
    convenience init(shell script: String, environment: [String: String], directory: URL? = nil) throws {
        let beginning = "set -em; trap 'for job in $(jobs -p); do kill -- -$job || true; done' EXIT"
        try self.init(
            ["-c", "\(beginning)\n\(script)"],
            executable: URL(filePath: "/bin/bash"),
            environment: environment,
            directory: directory
        )
    }
}

/// The output and exit status of a command.
struct CommandOutput {
    var status: Int32
    var output: [String]
    var error: [String]

    var text: String { output.joined(separator: "\n") }
    var errorText: String { error.joined(separator: "\n") }

    /// The only JSON object of its output.
    var json: [String: Any] {
        get throws {
            guard output.count == 1 else { throw NotOneObject(output: output) }
            return try JSON.object(output[0])
        }
    }

    struct NotOneObject: Error {
        var output: [String]
    }
}

enum JSON {
    struct NoObject: Error {
        var text: String
    }

    static func object(_ text: String) throws -> [String: Any] {
        guard let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else { throw NoObject(text: text) }
        return object
    }
}
