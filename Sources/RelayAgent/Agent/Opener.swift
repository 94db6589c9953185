// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Subprocess

#if canImport(System)
import System
#else
import SystemPackage
#endif

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Opens URIs on this machine, by the system's own way or by a program that the person chose.
struct Opener: Sendable {
    /// What still runs then has opened it.
    static let patience = Duration.seconds(3)

    static let maximumReasonBytes = 1_024

    /// `nil` for the system's own.
    let command: Program?
    let environment: ProgramEnvironment

    /// A program with a URI in its place, or behind its arguments.
    static func program(_ program: Program, with uri: LaunchURI) -> Program {
        var arguments = program.arguments
        let hasPlace = arguments.contains { $0.contains("{uri}") }
        arguments = arguments.map { $0.replacing("{uri}", with: uri.text) }
        return Program(arguments: hasPlace ? arguments : arguments + [uri.text])
    }

    /// - Parameter ended: Called when the program has ended, which may be long after the launch.
    func open(_ uri: LaunchURI, ended: @escaping @Sendable () -> Void) async -> LaunchAnswer {
        if command == nil, !Self.hasDisplay {
            ended()
            return .failed(why: "the agent there has no display on which it could open it")
        }
        let program = Self.program(command ?? Self.system, with: uri)
        let file: ErrorFile
        do {
            file = try ErrorFile()
        } catch {
            ended()
            return .failed(why: "there is no space for a temporary file")
        }
        let variables = environment.variables(forDesktop: true)
        let (ends, continuation) = AsyncStream.makeStream(of: Result<TerminationStatus, any Error>.self)
        // What was opened goes on, whatever becomes of the launch and of the agent.
        Task.detached {
            let emptying = Task { await file.keepEmpty() }
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
        case .failure(let error as SubprocessError): return .failed(why: program.trouble(error))
        case .failure: return .failed(why: "the program that opens it failed")
        }
    }

    #if canImport(Darwin)
    private static let system = Program(arguments: ["/usr/bin/open"])
    private static let hasDisplay = true
    #else
    private static let system = Program(arguments: ["xdg-open"])

    /// Without one `xdg-open` would begin something in a terminal, for nobody to see.
    private static var hasDisplay: Bool {
        let environment = ProcessInfo.processInfo.environment
        return ["DISPLAY", "WAYLAND_DISPLAY"].contains { !(environment[$0] ?? "").isEmpty }
    }
    #endif
}

/// Where a program that goes on without the agent says what it has to say: a pipe would end it when the agent ends. The file has no
/// name, and goes with the program.
private final class ErrorFile: Sendable {
    let descriptor: FileDescriptor

    init() throws {
        let name = FileManager.default.temporaryDirectory.path + "/device-relay-\(UUID().uuidString)"
        // Closed, from its first moment, for programs that are started meanwhile. What is emptied is written from its beginning on.
        let number = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0o600)
        guard number >= 0 else { throw Errno(rawValue: errno) }
        unlink(name)
        descriptor = FileDescriptor(rawValue: number)
    }

    deinit { try? descriptor.close() }

    /// Nobody reads on after the first seconds. Ends by cancellation.
    func keepEmpty() async {
        while (try? await Task.sleep(for: .seconds(60))) != nil { ftruncate(descriptor.rawValue, 0) }
    }

    /// The last that was written, made harmless.
    func end(maximumBytes: Int) -> String {
        guard let size = try? descriptor.seek(offset: 0, from: .end), size > 0 else { return "" }
        var bytes = [UInt8](repeating: 0, count: Int(min(size, Int64(maximumBytes))))
        let count = bytes.withUnsafeMutableBytes {
            (try? descriptor.read(fromAbsoluteOffset: size - Int64($0.count), into: $0)) ?? 0
        }
        let text = String(decoding: bytes.prefix(count), as: UTF8.self)
        // Lines become one; a broken character at its beginning, and what would control a terminal, becomes a mark.
        let line = DisplayText.sanitized(text.split(whereSeparator: \.isNewline).joined(separator: " "))
        var end = Substring(line)
        while end.utf8.count > maximumBytes { end.removeFirst() }
        return String(end)
    }
}
