// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Subprocess

/// The clipboard of this machine's desktop, by a program of it: wl-clipboard, xclip, or pbcopy and pbpaste. The text goes through pipes, and is
/// no argument.
struct Clipboard: Sendable {
    static let maximumBytes = 1 << 20
    private static let patience = Duration.seconds(30)

    let environment: ProgramEnvironment

    init(environment: ProgramEnvironment = ProgramEnvironment()) { self.environment = environment }

    /// The programs that write and read it; `nil` if there is no desktop, or no program for it.
    private var programs: (write: Program, read: Program)? {
        func has(_ variable: String) -> Bool { !(environment.own[variable] ?? "").isEmpty }
        var possible: [(write: [String], read: [String])] = []
        if has("WAYLAND_DISPLAY") { possible.append((["wl-copy"], ["wl-paste", "--no-newline"])) }
        if has("DISPLAY") {
            possible.append((["xclip", "-selection", "clipboard", "-in"], ["xclip", "-selection", "clipboard", "-out"]))
        }
        #if os(macOS)
        possible.append((["pbcopy"], ["pbpaste"]))
        #endif
        return possible.map { (Program(arguments: $0.write), Program(arguments: $0.read)) }.first { $0.0.isThere && $0.1.isThere }
    }

    var isThere: Bool { programs != nil }

    static var missing: AgentError {
        AgentError("clipboardMissing", "there is no clipboard here: it needs a desktop, and wl-clipboard or xclip", .notFound)
    }

    func write(_ text: String) async throws {
        guard let programs else { throw Self.missing }
        // These programs stay as the owner of the content, without its input and output.
        let status = try await run(programs.write) { configuration in
            let result = try await Subprocess.run(configuration, input: .array(Array(text.utf8)), output: .discarded, error: .discarded)
            return result.terminationStatus
        }
        guard status?.isSuccess == true else { throw failed(programs.write) }
    }

    /// - Returns: The text; empty if the clipboard is empty, or has no text.
    func read() async throws -> String {
        guard let programs else { throw Self.missing }
        let result = try await run(programs.read) { configuration in
            let result = try await Subprocess.run(
                configuration,
                input: .none,
                output: .bytes(limit: Self.maximumBytes),
                error: .discarded
            )
            return (result.terminationStatus, result.standardOutput)
        }
        guard let (status, bytes) = result else { throw failed(programs.read) }
        // An empty clipboard is an error of these programs.
        guard status.isSuccess else { return "" }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw AgentError("clipboardNotText", "the clipboard has no text", .failed)
        }
        return text
    }

    private func run<Result: Sendable>(
        _ program: Program,
        _ body: @escaping @Sendable (Subprocess.Configuration) async throws -> Result
    ) async throws -> Result? {
        let configuration = program.configuration(environment.variables(forDesktop: true))
        do {
            return try await within(Self.patience) { try await body(configuration) }
        } catch is SubprocessError {
            throw failed(program)
        }
    }

    private func failed(_ program: Program) -> AgentError {
        AgentError("clipboardFailed", "\(program.arguments.first ?? "") did not do its work, or the content is too large", .failed)
    }
}
