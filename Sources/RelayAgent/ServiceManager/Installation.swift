// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayStorage
import Subprocess

/// Installs the agent as a service of this user's service manager, or removes it.
package struct Installation: Sendable {
    package enum Action: String, Sendable, Encodable {
        case install, uninstall
    }

    var action: Action
    var configurationPath: String?
    var printsOnly: Bool

    /// - Parameter printsOnly: Changes nothing; the result shows what would change.
    package init(_ action: Action, configurationPath: String?, printsOnly: Bool) {
        self.action = action
        self.configurationPath = configurationPath
        self.printsOnly = printsOnly
    }

    package struct Result: AgentResult {
        package var action: Action
        /// The path of the service description.
        package var file: String
        /// The content of the service description; present with `--print` only.
        package var content: String?
        /// Whether the service manager succeeded; `nil` if it was not called.
        package var done: Bool?
        /// Steps for the user to do by hand.
        package var advice: [String]

        package func lines(_ style: Style) -> [String] {
            if let content {
                let lines = content.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
                // The service manager reads it.
                return (lines.last == "" ? Array(lines.dropLast()) : lines).map(style.translated)
            }
            let what = action == .install ? (done ?? false ? "installed and started" : "written") : "removed"
            return ["\(what): \(file)"] + advice
        }
    }

    package func run(_ context: AgentContext, environment: [String: String]) async throws -> Result {
        let manager = ServiceManager.own
        guard let userHome = HomeDirectory.path(environment: environment) else {
            throw StorageError(.homeUnknown, path: "XDG_CONFIG_HOME")
        }
        let configurationHome = environment["XDG_CONFIG_HOME"].flatMap { $0.utf8.first == UInt8(ascii: "/") ? $0 : nil }
        let file = manager.file(home: userHome, configurationHome: configurationHome)
        if action == .uninstall { return try await uninstall(manager, file) }
        let isGraphical = ["DISPLAY", "WAYLAND_DISPLAY"].contains { !(environment[$0] ?? "").isEmpty }
        let settings = ServiceManager.Settings(
            executable: try Self.executable(),
            home: context.accounts.root.path,
            account: context.account,
            configuration: configurationPath.map { URL(filePath: $0).standardizedFileURL.path },
            configurationHome: configurationHome,
            isGraphical: isGraphical
        )
        let content = manager.description(of: settings)
        guard !printsOnly else { return Result(action: action, file: file, content: content, advice: []) }
        // Without these, the service would fail and restart again and again.
        _ = try context.home.membership()
        _ = try ConfigurationFile(path: configurationPath, home: context.home).read()
        do {
            let folder = URL(filePath: file).deletingLastPathComponent().path
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Data(content.utf8).write(to: URL(filePath: file), options: .atomic)
        } catch {
            throw AgentError("storageFailed", "\(file) cannot be written", .failed)
        }
        let commands = manager.commands(installing: true, file: file, user: getuid())
        let done = await Self.run(commands)
        var advice =
            done
            ? [] : ["the service manager did not accept it; run: \(commands.map { $0.joined(separator: " ") }.joined(separator: " && "))"]
        if case .systemd = manager, !isGraphical {
            advice.append("it runs while you are logged in; to run it always: loginctl enable-linger")
        }
        return Result(action: action, file: file, done: done, advice: advice)
    }

    private func uninstall(_ manager: ServiceManager, _ file: String) async throws -> Result {
        guard FileManager.default.fileExists(atPath: file) else {
            throw AgentError("notFound", "the agent is not installed: there is no \(file)", .notFound)
        }
        guard !printsOnly else { return Result(action: action, file: file, content: "rm \(file)", advice: []) }
        let commands = manager.commands(installing: false, file: file, user: getuid())
        let done = await Self.run(commands)
        guard unlink(file) == 0 else { throw AgentError("storageFailed", "\(file) cannot be removed", .failed) }
        let advice = done ? [] : ["the service manager did not answer; if the agent still runs, end it"]
        return Result(action: action, file: file, done: done, advice: advice)
    }

    private static func run(_ commands: [[String]]) async -> Bool {
        for command in commands {
            let status = try? await within(.seconds(30)) {
                try await Subprocess.run(
                    Program(arguments: command).configuration(ProcessInfo.processInfo.environment),
                    input: .none,
                    output: .discarded,
                    error: .discarded
                ).terminationStatus
            }
            guard status?.isSuccess ?? false else { return false }
        }
        return true
    }

    /// The absolute path of this executable.
    private static func executable() throws -> String {
        #if canImport(Darwin)
        var size: UInt32 = 4_096
        var buffer = [CChar](repeating: 0, count: Int(size))
        guard _NSGetExecutablePath(&buffer, &size) == 0 else {
            throw AgentError("unknown", "this program's own path is not known", .failed)
        }
        let path = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return URL(filePath: path).resolvingSymlinksInPath().path
        #else
        do {
            return try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        } catch {
            throw AgentError("unknown", "this program's own path is not known", .failed)
        }
        #endif
    }
}
