// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import NIOCore
import NIOPosix

/// A real `relayd` process with its own directory. It can be started, killed and started again. For tests only.
package final class RelaydProcess {
    package struct Failed: Error {
        package var message: String

        package init(message: String) { self.message = message }
    }

    package enum Security: Sendable {
        /// HTTP on loopback only.
        case plain
        /// TLS with a certificate for the relay's own key.
        case ownCertificate
    }

    package let directory: URL
    /// 0 until the first start if the relay chooses the port; constant from then on.
    package private(set) var port: Int
    /// The port for tunnels over plain TCP; 0 if the relay chooses it.
    package let tunnelPort: Int
    package let security: Security
    /// The relay's standard error; `nil` for that of the tests.
    package var standardError: FileHandle?
    /// Variables of the service, beside those of the tests.
    package var environment: [String: String] = [:]
    /// The maximum number of open files of the service; `nil` for that of the tests.
    package var openFiles: Int?
    /// Another build of the service; `nil` for the one beside the tests.
    package var program: URL?
    private let arguments: [String]
    private var process: Process?

    package var origin: String { "\(security == .plain ? "http" : "https")://\(host)" }
    package var host: String { "127.0.0.1:\(port)" }
    /// The process id, while the service runs.
    package var processIdentifier: Int32? { process?.processIdentifier }

    /// The executable beside the tests, unless the environment names another one, such as a release build.
    package static let executable =
        ProcessInfo.processInfo.environment["DEVICE_RELAY_RELAYD"].map { URL(filePath: $0) }
        ?? URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "relayd")

    /// - Parameters:
    ///   - port: The port to listen on; 0 lets the relay choose, `nil` selects a free one.
    ///   - networks: Other addresses of this machine under which the relay is reachable. Then `tunnelPort` is also fixed.
    ///   - directory: Its data directory; `nil` for a temporary one.
    ///   - arguments: Flags for the service.
    package init(
        _ security: Security = .plain,
        port: Int? = nil,
        networks: [String] = [],
        directory: URL? = nil,
        arguments: [String] = []
    ) async throws {
        self.security = security
        tunnelPort = networks.isEmpty ? 0 : try FreePort.take()
        self.directory = directory ?? FileManager.default.temporaryDirectory.appending(path: "relayd-\(UUID().uuidString)")
        let port = if let port { port } else { try FreePort.take() }
        self.port = port
        let urls = networks.isEmpty ? [] : (["127.0.0.1"] + networks).flatMap { ["--url", "http://\($0):\(port)"] }
        self.arguments = arguments + urls + (networks.isEmpty ? [] : ["--allow-http"])
    }

    deinit {
        process?.terminate()
        try? FileManager.default.removeItem(at: directory)
    }

    private func process(_ arguments: [String]) -> Process {
        let process = Process()
        process.executableURL = program ?? Self.executable
        process.arguments = arguments + ["--data-directory", directory.path]
        return process
    }

    private func startService() throws -> (Process, FileHandle) {
        let process = process(["serve"])
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.arguments?.append(contentsOf: ["--log-level", "warning"])
        switch security {
        case .plain: process.arguments?.append(contentsOf: ["--listen", host])
        // On loopback only, the relay would use plain HTTP.
        case .ownCertificate: process.arguments?.append(contentsOf: ["--listen", "0.0.0.0:\(port)", "--url", origin])
        }
        process.arguments?.append(contentsOf: self.arguments)
        // The default is the next port, which may be in use.
        if !self.arguments.contains("--tunnel-listen") {
            process.arguments?.append(contentsOf: ["--tunnel-listen", "127.0.0.1:\(tunnelPort)"])
        }
        if let openFiles {
            let command = [process.executableURL?.path ?? ""] + (process.arguments ?? [])
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments = ["-c", "ulimit -n \(openFiles) && exec \"$@\"", "sh"] + command
        }
        if let standardError { process.standardError = standardError }
        return (process, try ProcessStart.reading(process))
    }

    /// Runs a command to its end and returns what it printed.
    package func run(_ arguments: String...) async throws -> String {
        let ended = try await ProcessRun.run(process(arguments), error: standardError)
        guard ended.status == 0 else { throw Failed(message: "relayd \(arguments) ended with \(ended.status): \(ended.error)") }
        return ended.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    package typealias Ended = ProcessRun.Ended

    /// A process with exactly these arguments.
    package static func process(_ arguments: [String]) -> Process {
        let process = Process()
        process.executableURL = executable
        process.arguments = arguments
        return process
    }

    /// Runs a command with exactly these arguments.
    package static func run(_ arguments: [String], input: String? = nil) async throws -> Ended {
        try await ProcessRun.run(process(arguments), input: input)
    }

    /// Reads the next lines that a process prints.
    package static func lines(of output: FileHandle, _ count: Int) async throws -> [String] {
        try await ProcessRun.blocking {
            var text = Data()
            while text.count(where: { $0 == UInt8(ascii: "\n") }) < count {
                let more = output.availableData
                guard !more.isEmpty else { throw Failed(message: "the process ended before it had said it") }
                text += more
            }
            return String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
        }
    }

    /// Starts the service and waits for its ready line.
    package func start() async throws -> String {
        let (process, output) = try startService()
        self.process = process
        let text = try await Self.lines(of: output, 1).first ?? ""
        if port == 0, let range = text.firstRange(of: "http://127.0.0.1:") {
            port = Int(text[range.upperBound...].prefix(while: \.isNumber)) ?? 0
        }
        return text
    }

    /// Asks the service to stop, without waiting.
    package func terminate() { process?.terminate() }

    package var isRunning: Bool { process?.isRunning ?? false }

    /// Stops the process without its knowledge.
    package func freeze() { if let process { _ = Foundation.kill(process.processIdentifier, SIGSTOP) } }
    package func resume() { if let process { _ = Foundation.kill(process.processIdentifier, SIGCONT) } }

    package func kill() async throws {
        guard let process else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        try await ProcessRun.end(of: process)
        self.process = nil
    }

    /// Stops it as a service manager does.
    /// - Returns: The exit code.
    package func stop() async throws -> Int32? {
        guard let process else { return nil }
        process.terminate()
        let status = try await ProcessRun.end(of: process)
        self.process = nil
        return status < 0 ? nil : status
    }
}
