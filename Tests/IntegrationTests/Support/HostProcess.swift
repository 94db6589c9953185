// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting

/// A hosting device in a separate process, on the storage of a joined device.
final class HostProcess {
    struct Ended: Error {}

    private let process = Process()
    private let input: FileHandle
    private var lines: AsyncStream<String>.Iterator

    init(_ device: TestDevice) throws {
        process.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "TestHost")
        process.arguments = [
            device.settings.relay.absoluteString, device.settings.relayID?.description ?? "",
            device.settings.storageDirectory.deletingLastPathComponent().path,
        ]
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
        }.makeAsyncIterator()
    }

    deinit { kill() }

    /// The next line of its output.
    func line() async throws -> String {
        guard let line = await lines.next() else { throw Ended() }
        return line
    }

    /// Lets one handler answer.
    func go() throws { try input.write(contentsOf: Data("go\n".utf8)) }

    /// Sends SIGKILL, as the kernel does when memory runs out.
    func kill() {
        guard process.isRunning else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Shuts the platform down.
    func stop() async throws {
        try input.close()
        while await lines.next() != nil {}
        process.waitUntilExit()
    }
}
