// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import Foundation
import RelayProtocol

/// Launches a URI on another device.
package struct Launch: DeviceCommand {
    var target: String
    var uri: LaunchURI
    var fallback: LaunchURI?
    /// The text of the URI, if it differs from what was given: letters outside ASCII were encoded.
    private var encoded: String?
    /// Says which URIs were encoded.
    private var notes: [String] = []
    var preferred: [String]
    var wait: Duration
    var waits: Bool
    var life: Duration?

    /// - Parameters:
    ///   - target: A device, or one of its apps: `DEVICE/APP`.
    ///   - wait: The time limit of the wait for the outcome; `nil` for no wait.
    ///   - life: How long the relay keeps the launch for a device that is not connected.
    package init(target: String, uri: String, fallback: String?, preferred: [String], wait: Duration?, life: Duration?) throws {
        if (try? LaunchURI(uri)) == nil, target.contains("://"), (try? LaunchURI(target)) != nil {
            throw AgentError("invalidURI", "write the device first, then the URI", .usage)
        }
        self.target = target
        (self.uri, encoded) = try Self.checked(uri, "the URI")
        let second = try fallback.map { try Self.checked($0, "the fallback URI") }
        self.fallback = second?.0
        for (what, text) in [("the URI", encoded), ("the fallback URI", second?.encoded)] {
            if let text { notes.append("\(what) has letters outside ASCII; it is sent as \(text)") }
        }
        self.preferred = preferred
        self.wait = wait ?? LocalDevice.patience
        self.waits = wait != nil
        self.life = life
    }

    package struct Result: AgentResult {
        package var command: String
        /// `succeeded`, or the progress: `accepted`, `waking`, `delivered`.
        package var status: String
        package var device: String
        package var deviceName: String
        package var app: String
        package var endpoint: String
        /// The URI, if it differs from what was given: letters outside ASCII were encoded.
        package var uri: String?
        /// Whether the fallback URI was launched.
        package var fallback: Bool?
        package var expires: Date?
        /// What the relay knows of the wake, with the status `waking`.
        package var wake: CommandList.WakeResult?
        /// Who attests the success.
        package var attested: Attestation?

        package func lines(_ style: Style) -> [String] {
            let place = "\(app) on \(style.show(deviceName, .strong))"
            guard status == "succeeded" else { return ["\(command) \(Words.launch(status)): it continues to \(place)"] }
            let proof = attested.map { [style.show("  \($0.description)", .faint)] } ?? []
            return ["launched\(fallback ?? false ? " the fallback" : "") by \(place)"] + proof
        }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        for note in notes { context.console.note(note) }
        return try await CancellationSignal.cancelling(failingWith: AgentError.init) {
            try await context.withAccount { try await run(on: $0) }
        }
    }

    package func run(on local: LocalDevice) async throws -> Result {
        try await local.waitForDevices(min(LocalDevice.patience, max(wait, .seconds(3))))
        let (system, request) = try await local.target(target)
        try await local.checkWay(to: system)
        let launcher = RemoteLauncher(local.platform)
        var options = RemoteLauncherOptions(fallbackURI: fallback, preferredAppIDs: preferred, timeout: wait)
        if let life { options.timeToLive = life }
        do {
            guard waits else { return try await sent(launcher.submit(uri, on: request, options: options), to: system) }
            let receipt = try await local.whileWaiting {
                "waiting for \(DisplayText.sanitized(system.displayName)): \(PresenceText.text(system.presence))"
            } _: {
                try await launcher.launch(uri, on: request, options: options)
            }
            return Result(
                command: "\(receipt.commandID)",
                status: "succeeded",
                device: "\(system.id)",
                deviceName: DisplayText.sanitized(system.displayName),
                app: DisplayText.sanitized(receipt.target.appID),
                endpoint: "\(receipt.target.endpoint)",
                uri: encoded,
                fallback: receipt.isFallback,
                attested: local.attested(receipt.attestation)
            )
        } catch let error as RemoteLaunchError {
            let commands = try? await local.commands()
            var failure = Self.explained(error, system, uri.scheme, commands?.first { $0.id == error.commandID }?.status?.wake)
            failure.attested = error.attestation.map(local.attested)
            throw failure
        }
    }

    /// Waits until the relay has stored the launch. From then on it does not depend on this device.
    private func sent(_ command: RemoteCommand, to system: RemoteSystem) async throws -> Result {
        let status = try await within(wait) { () -> CommandStatus? in
            var last: CommandStatus?
            for await status in command.statuses {
                guard status.outcome != nil else { return status }
                last = status
            }
            // It has ended already. A failure is thrown.
            _ = try await command.outcome()
            return last
        }
        guard let status else {
            throw AgentError(
                "pending",
                "the relay has not confirmed the launch; it is stored here, and the next `relay` command that connects sends it again",
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
            uri: encoded,
            expires: command.expiresAt,
            wake: status.wake.map(CommandList.WakeResult.init)
        )
    }

    private static func explained(
        _ error: RemoteLaunchError,
        _ system: RemoteSystem,
        _ scheme: String?,
        _ wake: CommandWake?
    ) -> AgentError {
        var failure = AgentError(error)
        if error.code == .protocolUnavailable, let scheme {
            failure.message =
                "no app on '\(DisplayText.sanitized(system.displayName))' takes \(scheme): URIs. On that device, add \(scheme) to `schemes` below `open` in agent.yaml (`relay agent`), or run: relay host --scheme \(scheme)"
        }
        guard error.code == .pending else { return failure }
        guard let id = error.commandID else {
            failure.message = "nothing was sent"
            return failure
        }
        let name = DisplayText.sanitized(system.displayName)
        let sent = wake.map { "; \(PresenceText.wake($0))" } ?? ""
        failure.message =
            "not opened yet: \(name) has not answered\(sent); the launch continues. See `relay commands`. Cancel: relay cancel \(id)"
        return failure
    }

    /// The URI of a text. What is not ASCII is encoded.
    /// - Returns: Also the URI's text, if it differs from what was given.
    private static func checked(_ text: String, _ what: String) throws -> (LaunchURI, encoded: String?) {
        let ascii = try IRI.uri(text)
        do throws(LaunchURIError) {
            let uri = try LaunchURI(ascii)
            return (uri, uri.text.utf8.elementsEqual(text.utf8) ? nil : uri.text)
        } catch {
            throw AgentError("invalidURI", "\(what): \(error)", .usage)
        }
    }
}
