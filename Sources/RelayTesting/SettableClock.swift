// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The wall clock of a process, by the library of Debian's package `faketime`. For tests only.
package final class SettableClock {
    private static let library = ["x86_64", "aarch64"].map { "/usr/lib/\($0)-linux-gnu/faketime/libfaketimeMT.so.1" }
        .first { FileManager.default.fileExists(atPath: $0) }
    package static var isPossible: Bool { library != nil }

    private let file = FileManager.default.temporaryDirectory.appending(path: "clock-\(UUID().uuidString)")
    /// It makes the memory that processes with this clock share. Without that, the library starts too late for a program in Swift.
    private let keeper = Process()
    private let input = ProcessStart.alone { Pipe() }
    private let shared: String

    package init() async throws {
        keeper.executableURL = URL(filePath: "/usr/bin/faketime")
        keeper.arguments = ["-f", "+0s", "sh", "-c", #"echo "$FAKETIME_SHARED"; read -r _"#]
        keeper.standardInput = input
        shared = try await RelaydProcess.lines(of: try ProcessStart.reading(keeper), 1).first ?? ""
        try set(0)
    }

    deinit {
        try? input.fileHandleForWriting.close()
        try? FileManager.default.removeItem(at: file)
    }

    /// Sets it, while the process runs.
    /// - Parameter seconds: How far it is ahead.
    package func set(_ seconds: Int) throws { try Data("+\(seconds)\n".utf8).write(to: file) }

    /// The variables of a process with this clock. Its monotonic clock is that of the machine.
    package var environment: [String: String] {
        [
            "LD_PRELOAD": Self.library ?? "", "FAKETIME_SHARED": shared, "FAKETIME_TIMESTAMP_FILE": file.path, "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        ]
    }
}
