// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

@testable import RelayAgent

/// A settings file in a folder of its own.
final class SettingsFile {
    let folder = FileManager.default.temporaryDirectory.appending(path: "settings-\(UUID().uuidString)").path
    var path: String { folder + "/agent.yaml" }

    init(_ text: String? = nil) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        if let text { try Data(text.utf8).write(to: URL(filePath: path)) }
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// Reads it as the agent does.
    func read(isNeeded: Bool = false) throws -> AgentConfiguration {
        try ConfigurationFile(path: isNeeded ? path : nil, home: Home(folder)).read()
    }

    /// The problem that the agent reports.
    func problem(isNeeded: Bool = false) -> String? {
        do {
            _ = try read(isNeeded: isNeeded)
            return nil
        } catch {
            return (error as? AgentError)?.message
        }
    }

    static func settings(_ text: String) throws -> AgentConfiguration { try SettingsFile(text).read() }
    static func problem(_ text: String) throws -> String? { try SettingsFile(text).problem() }
}
