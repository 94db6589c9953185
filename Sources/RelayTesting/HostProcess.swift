// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// A hosting device in a separate process, `TestHost`, on the storage of a joined device. For tests only.
package final class HostProcess {
    package struct Ended: Error {}

    private let process = Process()
    private let input: FileHandle
    private let lines: AsyncStream<String>

    /// - Parameters:
    ///   - directory: Contains the device's storage.
    ///   - arguments: The app's id, and the push notification for which it starts.
    package init(relay: String, relayID: String, directory: URL, _ arguments: [String] = []) throws {
        process.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "TestHost")
        process.arguments = [relay, relayID, directory.path] + arguments
        let (input, output) = try ProcessStart.alone { [process] in
            let (input, output) = (Pipe(), Pipe())
            process.standardInput = input
            process.standardOutput = output
            try process.run()
            return (input.fileHandleForWriting, output.fileHandleForReading)
        }
        self.input = input
        // The blocking read has its own thread, so that it does not block the test's threads.
        lines = AsyncStream { continuation in
            Thread.detachNewThread {
                var rest = Data()
                while case let more = output.availableData, !more.isEmpty {
                    rest += more
                    while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                        continuation.yield(String(decoding: rest[..<end], as: UTF8.self))
                        rest = Data(rest[(end + 1)...])
                    }
                }
                continuation.finish()
            }
        }
    }

    deinit {
        guard process.isRunning else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
    }

    /// The next line of its output.
    package func line() async throws -> String {
        for await line in lines { return line }
        throw Ended()
    }

    /// Lets one handler answer.
    package func go() throws { try input.write(contentsOf: Data("go\n".utf8)) }

    /// Sends SIGKILL, as the kernel does when memory runs out.
    package func kill() async throws {
        guard process.isRunning else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        try await ProcessRun.end(of: process)
    }

    /// Shuts the platform down.
    package func stop() async throws {
        try input.close()
        for await _ in lines {}
        try await ProcessRun.end(of: process)
    }
}
