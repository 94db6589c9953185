// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

/// Helpers that write the agent's settings.
enum Settings {
    /// A list of texts as JSON, which is valid YAML.
    static func list(_ texts: [String]) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return String(decoding: try encoder.encode(texts), as: UTF8.self)
    }

    /// A shell script with arguments, as a program.
    static func shell(_ script: String, _ arguments: String...) throws -> String {
        try list(["/bin/sh", "-c", script, "sh"] + arguments)
    }
}

/// Waits until a condition holds. The time limit of the suite bounds the wait.
func wait(until isSo: () async throws -> Bool) async throws {
    while !(try await isSo()) { try await Task.sleep(for: .milliseconds(20)) }
}

/// The lines of a file; empty if the file does not exist.
func lines(of path: String) -> [String] {
    let text = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return text.split(separator: "\n").map(String.init)
}

/// The error code that a command printed as JSON.
func code(_ output: CommandOutput) throws -> String? { try (output.json["error"] as? [String: Any])?["code"] as? String }
