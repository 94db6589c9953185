// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// A desktop session with a program in the place of `notify-send`.
final class FakeDesktop {
    let device: TestDevice
    private let folder: String

    /// - Parameter script: The program; `nil` for one that records its arguments, and waits for `answer` or SIGINT.
    init(on device: TestDevice, script: String? = nil) throws {
        self.device = device
        folder = device.directory.path + "/desktop"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        // Arguments are separated by lines, and notifications by a line that no argument has.
        let usual = """
            { printf '%s\\n' "$@"; echo '=='; } >> '\(folder)/shown'
            trap 'echo closed >> \(folder)/closed; exit 0' INT
            while [ ! -e '\(folder)/answer' ]; do sleep 0.05; done
            cat '\(folder)/answer'
            rm '\(folder)/answer'
            """
        let program = folder + "/notify-send"
        try Data("#!/bin/sh\n\(script ?? usual)\n".utf8).write(to: URL(filePath: program))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program)
        device.variables = ["PATH": "\(folder):/usr/bin:/bin", "DBUS_SESSION_BUS_ADDRESS": "unix:path=\(folder)/bus"]
    }

    func agent() async throws -> RelayProcess { try await device.agent() }

    /// The lines of each notification so far: options, title and body.
    var notifications: [[String]] { lines(of: folder + "/shown").split(separator: "==").map(Array.init) }

    /// Waits for a notification.
    func notification(_ index: Int) async throws -> [String] {
        try await wait { self.notifications.count > index && lines(of: self.folder + "/shown").last == "==" }
        return notifications[index]
    }

    /// Presses a button, or closes the notification with an empty answer.
    func answer(_ action: String) throws {
        try Data("\(action)\n".utf8).write(to: URL(filePath: folder + "/answer"), options: .atomic)
    }

    /// Waits until the agent has closed the notification.
    func isClosed() async throws { try await wait { lines(of: self.folder + "/closed") == ["closed"] } }
}
