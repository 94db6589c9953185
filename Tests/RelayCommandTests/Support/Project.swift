// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The files of the project, and its build products.
enum Project {
    static let root: URL = {
        var folder = URL(filePath: #filePath)
        while folder.lastPathComponent != "Tests" { folder.deleteLastPathComponent() }
        return folder.deletingLastPathComponent()
    }()

    /// The executables are in the directory of the test executable.
    static let products = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()

    /// A Python with the packages that some tests compare with.
    static let python = ProcessInfo.processInfo.environment["DEVICE_RELAY_PYTHON"].map { URL(filePath: $0) }

    static func text(_ path: String) throws -> String { try String(contentsOf: root.appending(path: path), encoding: .utf8) }

    /// The fenced blocks of a document in one language.
    static func blocks(_ language: String, of path: String) throws -> [String] {
        try text(path).matches(of: /(?s)\n```(?<language>[a-z]+)\n(?<code>.*?\n)```/).filter { $0.language == language }
            .map { String($0.code) }
    }
}

extension RelayProcess {
    /// Runs a script up to its first failure. Job control gives each job a process group, which ends with the script.
    convenience init(shell script: String, environment: [String: String], directory: URL? = nil) throws {
        let beginning = "set -em; trap 'for job in $(jobs -p); do kill -- -$job || true; done' EXIT"
        try self.init(
            ["-c", "\(beginning)\n\(script)"],
            executable: URL(filePath: "/bin/bash"),
            environment: environment,
            directory: directory
        )
    }
}
