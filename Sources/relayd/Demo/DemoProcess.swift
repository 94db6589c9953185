// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// A child process of the demo: its output by lines, and its exit status.
final class DemoProcess: Sendable {
    private let process = Process()
    private let lines: AsyncStream<String>
    private let errors: AsyncStream<String>
    private let end: AsyncStream<Int32>

    /// - Parameter showsProgress: Whether its standard error goes directly to the terminal.
    init(_ program: URL, _ arguments: [String], environment: [String: String], in directory: URL, showsProgress: Bool = false) throws {
        process.executableURL = program
        process.currentDirectoryURL = directory
        process.arguments = arguments
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        let (output, error) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = showsProgress ? FileHandle.standardError : error
        let (end, continuation) = AsyncStream.makeStream(of: Int32.self)
        self.end = end
        process.terminationHandler = { process in
            continuation.yield(process.terminationStatus)
            continuation.finish()
        }
        try process.run()
        lines = Self.lines(of: output.fileHandleForReading)
        errors = showsProgress ? AsyncStream { $0.finish() } : Self.lines(of: error.fileHandleForReading)
    }

    /// Reads on its own thread, because a blocking read cannot be cancelled.
    private static func lines(of file: FileHandle) -> AsyncStream<String> {
        AsyncStream { continuation in
            Thread.detachNewThread {
                var rest = Data()
                while case let more = file.availableData, !more.isEmpty {
                    rest += more
                    while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                        continuation.yield(String(decoding: rest[..<end], as: UTF8.self))
                        rest = Data(rest[rest.index(after: end)...])
                    }
                }
                if !rest.isEmpty { continuation.yield(String(decoding: rest, as: UTF8.self)) }
                continuation.finish()
            }
        }
    }

    /// Skips lines up to the next one that fulfils a condition, and returns that line.
    func line(where matches: (String) -> Bool = { _ in true }) async throws -> String {
        for await line in lines where matches(line) { return line }
        throw DemoFailure("\(process.executableURL?.lastPathComponent ?? "a process") ended too early: \(await errorText())")
    }

    /// Waits for the exit.
    func finish() async -> (status: Int32, output: [String], error: String) {
        var output: [String] = []
        for await line in lines { output.append(line) }
        let error = await errorText()
        var status: Int32 = -1
        for await number in end { status = number }
        return (status, output, error)
    }

    private func errorText() async -> String {
        var text: [String] = []
        for await line in errors { text.append(line) }
        return text.joined(separator: " ")
    }

    /// Sends SIGKILL, as the kernel does when memory runs out.
    func kill() {
        guard process.isRunning else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    func terminate() {
        guard process.isRunning else { return }
        process.terminate()
        process.waitUntilExit()
    }
}

struct DemoFailure: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) { self.description = description }
}
