// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

/// What the agent's settings are written with.
enum Settings {
    /// A list of texts, as JSON, which is YAML too.
    static func list(_ texts: [String]) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return String(decoding: try encoder.encode(texts), as: UTF8.self)
    }

    /// A shell's program, with arguments.
    static func shell(_ script: String, _ arguments: String...) throws -> String {
        try list(["/bin/sh", "-c", script, "sh"] + arguments)
    }
}

/// Waits until something is so; the suite's time limit ends what never is.
func wait(until isSo: () throws -> Bool) async throws {
    while !(try isSo()) { try await Task.sleep(for: .milliseconds(20)) }
}

/// The lines of a file; none if there is no file.
func lines(of path: String) -> [String] {
    let text = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return text.split(separator: "\n").map(String.init)
}

/// The code of the error that a command printed as JSON.
func code(_ output: CommandOutput) throws -> String? { try (output.json["error"] as? [String: Any])?["code"] as? String }
