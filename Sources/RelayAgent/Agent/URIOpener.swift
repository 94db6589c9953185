// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Subprocess

#if canImport(System)
import System
#else
import SystemPackage
#endif

/// Opens URIs on this machine, with the system's default or a configured program.
struct URIOpener: Sendable {
    /// A program that still runs after this time counts as successful.
    static let patience = Duration.seconds(3)

    static let maximumReasonBytes = 1_024

    /// The program that opens URIs; `nil` for the system's default.
    let command: Program?
    let environment: ProgramEnvironment
    /// An installed program that opens them instead.
    var handler: InstalledHandler?

    /// The program with the URI in place of `{uri}`, or as its last argument.
    static func program(_ program: Program, with uri: LaunchURI) -> Program {
        var arguments = program.arguments
        let hasPlace = arguments.contains { $0.contains("{uri}") }
        arguments = arguments.map { $0.replacing("{uri}", with: uri.text) }
        return Program(arguments: hasPlace ? arguments : arguments + [uri.text])
    }

    /// - Parameter ended: Called when the program exits, possibly long after the launch.
    func open(_ uri: LaunchURI, ended: @escaping @Sendable () -> Void) async -> LaunchAnswer {
        if command == nil, handler == nil, !Self.hasDisplay {
            ended()
            return .failed(why: "the agent there has no display on which it could open it")
        }
        let program = handler?.program(with: uri) ?? Self.program(command ?? Self.system, with: uri)
        let file: ErrorFile
        do {
            file = try ErrorFile()
        } catch {
            ended()
            return .failed(why: "there is no space for a temporary file")
        }
        let variables = environment.variables(forDesktop: true)
        let (ends, continuation) = AsyncStream.makeStream(
            of: Result<TerminationStatus, any Error>.self,
            bufferingPolicy: .bufferingOldest(1)
        )
        // The program outlives the launch and the agent.
        Task.detached {  // Owner: the number of programs, which is bounded
            let emptying = Task { await file.keepEmpty() }  // Owner: the task around it cancels it
            defer {
                emptying.cancel()
                ended()
            }
            do {
                let result = try await Subprocess.run(
                    program.configuration(variables),
                    input: .none,
                    output: .fileDescriptor(file.descriptor, closeAfterSpawningProcess: false),
                    error: .fileDescriptor(file.descriptor, closeAfterSpawningProcess: false)
                )
                continuation.yield(.success(result.terminationStatus))
            } catch {
                continuation.yield(.failure(error))
            }
        }
        let end = try? await within(Self.patience) { () -> Result<TerminationStatus, any Error>? in
            for await end in ends { return end }
            return nil
        }
        switch end {
        case nil, .success(.exited(0)): return .launched
        case .success(let status):
            return .failed(why: "the program that opens it \(status.words)", said: file.end(maximumBytes: Self.maximumReasonBytes))
        case .failure(let error as SubprocessError): return .failed(why: program.describe(error))
        case .failure: return .failed(why: "the program that opens it failed")
        }
    }

    #if canImport(Darwin)
    private static let system = Program(arguments: ["/usr/bin/open"])
    static let hasDisplay = true
    #else
    private static let system = Program(arguments: ["xdg-open"])

    /// Without a display, `xdg-open` starts a text browser that is not visible.
    static var hasDisplay: Bool {
        let environment = ProcessInfo.processInfo.environment
        return ["DISPLAY", "WAYLAND_DISPLAY"].contains { !(environment[$0] ?? "").isEmpty }
    }
    #endif
}

/// The output of a program that outlives the agent. A pipe would end the program when the agent ends. The file is
/// unlinked and disappears with the program.
private final class ErrorFile: Sendable {
    let descriptor: FileDescriptor

    init() throws {
        let name = FileManager.default.temporaryDirectory.path + "/device-relay-\(UUID().uuidString)"
        // `O_CLOEXEC` keeps the file out of programs that start at the same time. `O_APPEND` makes writes after a truncation
        // start at offset 0.
        let number = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0o600)
        guard number >= 0 else { throw Errno(rawValue: errno) }
        unlink(name)
        descriptor = FileDescriptor(rawValue: number)
    }

    deinit { try? descriptor.close() }

    /// Truncates the file every 60 s: the output is only read in the first seconds. Ends when the task is cancelled.
    func keepEmpty() async {
        while (try? await Task.sleep(for: .seconds(60))) != nil { ftruncate(descriptor.rawValue, 0) }
    }

    /// The end of the output, sanitized.
    func end(maximumBytes: Int) -> String {
        guard let size = try? descriptor.seek(offset: 0, from: .end), size > 0 else { return "" }
        var bytes = [UInt8](repeating: 0, count: Int(min(size, Int64(maximumBytes))))
        let count = bytes.withUnsafeMutableBytes {
            (try? descriptor.read(fromAbsoluteOffset: size - Int64($0.count), into: $0)) ?? 0
        }
        let text = String(decoding: bytes.prefix(count), as: UTF8.self)
        // Lines are joined. A broken character at the start and terminal control characters are replaced by a mark.
        let line = DisplayText.sanitized(text.split(whereSeparator: \.isNewline).joined(separator: " "))
        var end = Substring(line)
        while end.utf8.count > maximumBytes { end.removeFirst() }
        return String(end)
    }
}
