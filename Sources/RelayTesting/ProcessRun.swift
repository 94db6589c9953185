// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// Waits for processes, with a time limit. A thread of its own waits: the threads that run tasks are few, and other tests need them. For tests
/// only.
package enum ProcessRun {
    package struct Failed: Error, CustomStringConvertible {
        package var description: String
    }

    package struct Ended: Sendable {
        /// The exit status; -1 if a signal has ended it.
        package var status: Int32
        package var output: String
        package var error: String
    }

    /// How long a process may run. The suites have longer limits.
    package static let limit = Duration.seconds(180)

    /// Does something that blocks, on a thread of its own.
    package static func blocking<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Swift.Result(catching: body)) }
        }
    }

    /// Waits for the end of a process that was started.
    /// - Returns: The exit status; -1 if a signal has ended it.
    @discardableResult
    package static func end(of process: Process, within limit: Duration = limit) async throws -> Int32 {
        try await blocking { try waitForEnd(of: process, within: limit) }
    }

    /// Does something after the end of processes, without waiting for it here.
    package static func after(endOf processes: [Process], _ body: @escaping @Sendable () -> Void) {
        Thread.detachNewThread {
            for process in processes { _ = try? waitForEnd(of: process, within: limit) }
            body()
        }
    }

    /// `Process.waitUntilExit` has no limit, and it waits for ever if an unrelated process has got the socket that reports the end.
    private static func waitForEnd(of process: Process, within limit: Duration) throws -> Int32 {
        let end = ContinuousClock.now + limit
        while process.isRunning {
            guard .now < end else {
                _ = kill(process.processIdentifier, SIGKILL)
                throw Failed(description: "\(process.executableURL?.path ?? "") \(process.arguments ?? []) still runs after \(limit)")
            }
            usleep(2_000)
        }
        return process.terminationReason == .exit ? process.terminationStatus : -1
    }

    /// Runs a process to its end. What it prints goes to files, because other processes could keep a pipe open.
    /// - Parameters:
    ///   - input: What it reads; `nil` for its own standard input.
    ///   - output: Its standard output; `nil` to return it.
    ///   - error: Its standard error; `nil` to return it.
    package static func run(
        _ process: Process,
        input: String? = nil,
        output: FileHandle? = nil,
        error: FileHandle? = nil,
        within limit: Duration = limit
    ) async throws -> Ended {
        let (printed, said) = (try temporaryFile(), try temporaryFile())
        process.standardOutput = output ?? printed
        process.standardError = error ?? said
        if let input {
            let given = try temporaryFile()
            try given.write(contentsOf: Data(input.utf8))
            try given.seek(toOffset: 0)
            process.standardInput = given
        }
        return try await blocking {
            try ProcessStart.alone { try process.run() }
            let status = try waitForEnd(of: process, within: limit)
            return Ended(status: status, output: try text(of: printed), error: try text(of: said))
        }
    }

    /// Runs a command to its end, which is to be a success.
    /// - Parameter environment: Its variables; `nil` for those of the tests.
    /// - Returns: What it printed, without the white space around it.
    @discardableResult
    package static func output(
        of command: [String],
        environment: [String: String]? = nil,
        within limit: Duration = limit
    ) async throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        if let environment { process.environment = environment }
        let ended = try await run(process, within: limit)
        guard ended.status == 0 else { throw Failed(description: "\(command) ended with \(ended.status): \(ended.error)") }
        return ended.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// A file without a name.
    private static func temporaryFile() throws -> FileHandle {
        let path = FileManager.default.temporaryDirectory.appending(path: "output-\(UUID().uuidString)").path
        let file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Failed(description: "\(path): \(String(cString: strerror(errno)))") }
        unlink(path)
        return FileHandle(fileDescriptor: file, closeOnDealloc: true)
    }

    private static func text(of file: FileHandle) throws -> String {
        try file.seek(toOffset: 0)
        return String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
    }
}
