// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import NIOCore
import NIOPosix

/// A real `relayd` on a directory of its own, started, killed and started again. For tests only.
package final class RelaydProcess {
    package struct Failed: Error {
        package var message: String
    }

    package enum Security: Sendable {
        /// HTTP, on loopback alone.
        case plain
        /// TLS with a certificate over the relay's own key.
        case ownCertificate
    }

    package let directory: URL
    /// 0 until the first start if any port will do; the same from then on.
    package private(set) var port: Int
    package let security: Security
    /// Where it says what goes wrong; without, where the tests do.
    package var standardError: FileHandle?
    private let arguments: [String]
    private var process: Process?

    package var origin: String { "\(security == .plain ? "http" : "https")://\(host)" }
    package var host: String { "127.0.0.1:\(port)" }

    /// - Parameters:
    ///   - port: where it listens; 0 leaves that to the relay, `nil` takes one that was just free.
    ///   - directory: its data directory, if that matters.
    ///   - arguments: flags for all of its commands.
    package init(_ security: Security = .plain, port: Int? = nil, directory: URL? = nil, arguments: [String] = []) async throws {
        self.security = security
        self.arguments = arguments
        self.directory = directory ?? FileManager.default.temporaryDirectory.appending(path: "relayd-\(UUID().uuidString)")
        if let port {
            self.port = port
            return
        }
        // A port that was just free.
        let probe = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(host: "127.0.0.1", port: 0).get()
        self.port = probe.localAddress?.port ?? 0
        try await probe.close()
    }

    deinit {
        process?.terminate()
        try? FileManager.default.removeItem(at: directory)
    }

    private func command(_ arguments: [String]) -> (Process, Pipe) {
        let process = Process()
        // The executables stand beside the tests.
        process.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "relayd")
        process.arguments = arguments + ["--data-directory", directory.path, "--log-level", "warning"]
        switch security {
        case .plain: process.arguments?.append(contentsOf: ["--listen", host])
        // Loopback alone would be plain.
        case .ownCertificate: process.arguments?.append(contentsOf: ["--listen", "0.0.0.0:\(port)", "--url", origin])
        }
        process.arguments?.append(contentsOf: self.arguments)
        // The next port may be somebody's.
        process.arguments?.append(contentsOf: ["--tunnel-listen", "127.0.0.1:0"])
        let output = Pipe()
        process.standardOutput = output
        if let standardError { process.standardError = standardError }
        return (process, output)
    }

    /// Runs a command to its end and returns what it printed.
    package func run(_ arguments: String...) throws -> String {
        let (process, output) = command(arguments)
        try process.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failed(message: "relayd \(arguments) ended with \(process.terminationStatus)") }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Starts the service and waits for its ready line.
    package func start() throws -> String {
        let (process, output) = command(["serve"])
        try process.run()
        self.process = process
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { throw Failed(message: "relayd ended before it was ready") }
            line += more
        }
        let text = String(decoding: line, as: UTF8.self)
        if port == 0, let range = text.firstRange(of: "http://127.0.0.1:") {
            port = Int(text[range.upperBound...].prefix(while: \.isNumber)) ?? 0
        }
        return text
    }

    /// Asks it to stop, and does not wait.
    package func terminate() { process?.terminate() }

    package func kill() {
        guard let process else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        self.process = nil
    }

    /// Stops it as a service manager does.
    /// - Returns: the exit code.
    package func stop() -> Int32? {
        guard let process else { return nil }
        process.terminate()
        process.waitUntilExit()
        self.process = nil
        return process.terminationReason == .exit ? process.terminationStatus : nil
    }
}
