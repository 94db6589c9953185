// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting

/// A sender or target process.
final class ChildProcess {
    private let process = Process()
    private let (input, output) = ProcessStart.alone { (Pipe(), Pipe()) }
    /// The reports of the process, until it ends.
    let reports: AsyncStream<NumberedReport>

    /// - Parameter errors: Its standard error.
    init(_ arguments: [String], errors: FileHandle) throws {
        process.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "Torture")
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        let (stream, continuation) = AsyncStream.makeStream(of: NumberedReport.self)
        reports = stream
        try ProcessStart.alone { try process.run() }
        // The parent's copies must be closed, or the end of the process would not close the pipe.
        try output.fileHandleForWriting.close()
        try input.fileHandleForReading.close()
        Line.read(output.fileHandleForReading, as: NumberedReport.self) { report in
            if let report { continuation.yield(report) } else { continuation.finish() }
        }
    }

    deinit { kill() }

    /// Sends an order; has no effect on a process that has ended.
    func tell(_ order: Order) { try? input.fileHandleForWriting.write(contentsOf: Line.encode(order)) }

    func kill() {
        guard process.isRunning else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Stops the process without its knowledge, as a system does that suspends an app.
    func freeze() { _ = Foundation.kill(process.processIdentifier, SIGSTOP) }

    func resume() { _ = Foundation.kill(process.processIdentifier, SIGCONT) }

    var isRunning: Bool { process.isRunning }
}
