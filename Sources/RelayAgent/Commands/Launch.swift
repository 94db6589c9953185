// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

#if canImport(FoundationEssentials)
package import FoundationEssentials
#else
package import Foundation
#endif

/// Launches a URI on another device.
package struct Launch: Sendable {
    var target: String
    var uri: String
    var fallback: String?
    var preferred: [String]
    var wait: Duration
    var waits: Bool
    var life: Duration?

    /// - Parameters:
    ///   - target: A device, or one of its apps: `DEVICE/APP`.
    ///   - wait: How long to wait for the outcome; `nil` not at all.
    ///   - life: How long it waits for a device that is not there.
    package init(target: String, uri: String, fallback: String?, preferred: [String], wait: Duration?, life: Duration?) {
        self.target = target
        self.uri = uri
        self.fallback = fallback
        self.preferred = preferred
        self.wait = wait ?? Session.patience
        self.waits = wait != nil
        self.life = life
    }

    package struct Result: AgentResult {
        package var command: String
        /// `succeeded`, or how far it is: `accepted`, `waking`, `delivered`.
        package var status: String
        package var device: String
        package var deviceName: String
        package var app: String
        package var endpoint: String
        /// The fallback URI was launched.
        package var fallback: Bool?
        package var expires: Date?

        package func lines(_ style: Style) -> [String] {
            let place = "\(app) on \(style.show(deviceName, .strong))"
            guard status == "succeeded" else { return ["\(command) \(status): it goes on to \(place)"] }
            return ["launched\(fallback ?? false ? " the fallback" : "") by \(place)"]
        }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        if (try? LaunchURI(uri)) == nil, target.contains("://"), (try? LaunchURI(target)) != nil {
            throw AgentError("invalidURI", "the device comes first, and then the URI", .usage)
        }
        let uri = try Self.checked(uri, "the URI")
        let fallback = try fallback.map { try Self.checked($0, "the fallback URI") }
        var options = RemoteLauncherOptions(fallbackURI: fallback, preferredAppIDs: preferred, timeout: wait)
        if let life { options.timeToLive = life }
        return try await context.withAccount { session in
            try await session.waitForDirectory(min(Session.patience, max(wait, .seconds(3))))
            let (system, request) = try session.target(target)
            let launcher = RemoteLauncher(session.platform)
            do {
                guard waits else { return try await sent(launcher.submit(uri, on: request, options: options), to: system) }
                let receipt = try await context.console.whileWaiting {
                    "waiting for the other device, which is \(system.status == .available ? "connected" : "not connected")"
                } _: { [options] in
                    try await launcher.launch(uri, on: request, options: options)
                }
                return Result(
                    command: "\(receipt.commandID)",
                    status: "succeeded",
                    device: "\(system.id)",
                    deviceName: DisplayText.sanitized(system.displayName),
                    app: DisplayText.sanitized(receipt.target.appID),
                    endpoint: "\(receipt.target.endpoint)",
                    fallback: receipt.isFallback
                )
            } catch let error as RemoteLaunchError {
                throw Self.explained(error)
            }
        }
    }

    /// Waits until the relay has it: from then on it is not lost, whatever this device does.
    private func sent(_ command: RemoteCommand, to system: RemoteSystem) async throws -> Result {
        let status = try await within(wait) { () -> CommandStatus? in
            for await status in command.statuses { return status }
            // It ended without one.
            _ = try await command.outcome()
            return nil
        }
        guard let status else {
            throw AgentError(
                "pending",
                "the relay has not confirmed it; it is stored here, and goes on with the next `relay` command that connects",
                .pending,
                command: command.id
            )
        }
        return Result(
            command: "\(command.id)",
            status: CommandList.name(of: status),
            device: "\(system.id)",
            deviceName: DisplayText.sanitized(system.displayName),
            app: DisplayText.sanitized(command.target.appID),
            endpoint: "\(command.target.endpoint)",
            expires: command.expiresAt
        )
    }

    private static func explained(_ error: RemoteLaunchError) -> AgentError {
        var failure = AgentError(error)
        guard error.code == .pending, let id = error.commandID else { return failure }
        failure.message = "it has not ended yet, and goes on by itself; see `relay commands`, or withdraw it with `relay cancel \(id)`"
        return failure
    }

    private static func checked(_ text: String, _ what: String) throws -> URL {
        do throws(LaunchURIError) {
            _ = try LaunchURI(text)
        } catch {
            throw AgentError("invalidURI", "\(what): \(error)", .usage)
        }
        guard let url = URL(string: text) else { throw AgentError("invalidURI", "\(what) is none", .usage) }
        return url
    }
}

extension Session {
    /// What `DEVICE` or `DEVICE/APP` means. A slash may be part of a device's name: the longest part that is a device is one.
    func target(_ text: String) throws -> (RemoteSystem, RemoteSystemConnectionRequest) {
        let (system, app) = try place(text)
        return (system, app.map { RemoteSystemConnectionRequest($0) } ?? RemoteSystemConnectionRequest(system))
    }

    /// What `DEVICE/APP` means.
    func app(_ text: String) throws -> (RemoteSystem, RemoteSystemApp) {
        let (system, app) = try place(text)
        guard let app else { throw AgentError("appMissing", "say which app: \(text)/APP; \(has(system))", .usage) }
        return (system, app)
    }

    func place(_ text: String) throws -> (RemoteSystem, RemoteSystemApp?) {
        let slashes = text.indices.filter { text[$0] == "/" }
        for end in [text.endIndex] + slashes.reversed() {
            let name = String(text[..<end])
            do {
                let system = try device(named: name)
                guard end < text.endIndex else { return (system, nil) }
                return (system, try app(String(text[text.index(after: end)...]), on: system))
            } catch let error as AgentError where error.status == .notFound && error.code == "remoteSystemUnavailable" {
                continue
            }
        }
        throw notFound(text)
    }

    private func app(_ id: String, on system: RemoteSystem) throws -> RemoteSystemApp {
        let apps = system.apps.filter { $0.appID == id }
        guard let app = apps.first else {
            throw AgentError("appUnavailable", "the device has no app \(id); \(has(system))", .notFound)
        }
        guard apps.count == 1 else {
            throw AgentError(
                "ambiguous",
                "the device has that app in several installations: \(apps.map { "\($0.endpoint)" }.joined(separator: ", "))",
                .usage
            )
        }
        return app
    }

    private func has(_ system: RemoteSystem) -> String {
        let known = Set(system.apps.map(\.appID)).sorted().joined(separator: ", ")
        return "it has \(known.isEmpty ? "none" : known)"
    }
}
