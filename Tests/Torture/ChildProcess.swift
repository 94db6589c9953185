// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// A sender or a target, as a process.
final class ChildProcess {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    /// What it tells, until it is dead.
    let reports: AsyncStream<NumberedReport>

    /// - Parameter errors: Where it says what goes wrong.
    init(_ arguments: [String], errors: FileHandle) throws {
        process.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "Torture")
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        let (stream, continuation) = AsyncStream.makeStream(of: NumberedReport.self)
        reports = stream
        try process.run()
        // Or its end would not be seen.
        try output.fileHandleForWriting.close()
        try input.fileHandleForReading.close()
        Line.read(output.fileHandleForReading, as: NumberedReport.self) { report in
            if let report { continuation.yield(report) } else { continuation.finish() }
        }
    }

    deinit { kill() }

    /// Without effect if it is dead.
    func tell(_ order: Order) { try? input.fileHandleForWriting.write(contentsOf: Line.encode(order)) }

    func kill() {
        guard process.isRunning else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    var isRunning: Bool { process.isRunning }
}
