// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import Foundation
import RelayProtocol

/// Launches a URI on another device.
package struct Launch: RoutedCommand {
    var target: String
    var uri: LaunchURI
    var fallback: LaunchURI?
    /// The text of the URI, if it differs from what was given: letters outside ASCII were encoded.
    private var encoded: String?
    /// Says which URIs were encoded.
    private var notes: [String] = []
    var preferred: [String]
    /// How long to wait for the ending.
    var wait: Duration
    /// What to wait for.
    var ending: Ending
    var life: Duration?
    /// Makes a repeat the same launch.
    var key: SubmissionKey?
    /// Throws if the launch may not go to this device.
    var permit: @Sendable (RemoteSystem) throws -> Void = { _ in }

    /// How far a launch has come when the command returns.
    enum Ending: Hashable, Sendable {
        /// It is stored on this device.
        case stored
        /// The relay has it. From then on it does not depend on this device.
        case accepted
        case outcome
    }

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
        self.ending = wait == nil ? .accepted : .outcome
        self.life = life
    }

    package struct Result: AgentResult, Codable {
        package var command: String
        /// `succeeded`, or the progress: `stored`, `accepted`, `waking`, `delivered`.
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
            guard status == "succeeded" else {
                return ["\(command) \(phrase); it continues to \(app) on \(style.show(deviceName, .strong))"]
            }
            let proof = attested.map { [style.show("  \($0.description)", .faint)] } ?? []
            return ["Opened on \(style.show(deviceName, .strong)) by \(app)\(fallback ?? false ? ", the fallback" : "")"] + proof
        }

        /// Its state within a sentence.
        fileprivate var phrase: String { StateText.lowered(StateText.Command(status: status).text(on: deviceName, nil)) }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        for note in notes { context.console.note(note) }
        return try await CancellationSignal.cancelling(failingWith: AgentError.init) { try await context.run(self) }
    }

    package func runHere(_ context: AgentContext) async throws -> Result {
        try completed(try await context.withAccount { try await run(on: $0) })
    }

    private struct Body: Encodable {
        var device: String
        var uri: String
        var fallback: String?
        var prefer: [String]?
        var ttl: Double?
    }

    package func request() throws -> APIRequest {
        let body = Body(
            device: target,
            uri: uri.text,
            fallback: fallback?.text,
            prefer: preferred.isEmpty ? nil : preferred,
            ttl: life.map { $0 / .seconds(1) }
        )
        var call = try APIRequest(.post, "launches").with(body: body)
        (call.wait, call.waitsForRelayOnly, call.hasKey) = (wait, ending == .accepted, true)
        return call
    }

    package func isFinal(_ result: Result) -> Bool {
        ending == .accepted ? result.status != "stored" : result.status == "succeeded"
    }

    package func waitingText(_ result: Result) -> String { "waiting for \(result.deviceName): \(result.phrase)" }

    /// A person waits for the end. Without it, the command has failed.
    package func completed(_ result: Result) throws -> Result {
        var result = result
        result.uri = encoded
        guard !isFinal(result) else { return result }
        throw AgentError(
            "pending",
            ending == .accepted
                ? "the relay has not confirmed the launch; it is stored here, and the next `relay` command that connects sends it again"
                : "not opened yet: \(result.deviceName) has not answered\(result.wake.map { "; \(PresenceText.wake($0))" } ?? ""); the launch continues. See `relay commands`. Cancel: relay cancel \(result.command)",
            .pending,
            command: CommandID(result.command)
        )
    }

    package func run(on local: LocalDevice) async throws -> Result {
        try await local.waitForDevices(min(LocalDevice.patience, max(wait, .seconds(3))))
        let (system, request) = try await local.target(target)
        try permit(system)
        // What is stored waits for the relay by itself.
        if ending != .stored { try await local.checkWay(to: system) }
        let launcher = RemoteLauncher(local.platform)
        var options = RemoteLauncherOptions(fallbackURI: fallback, preferredAppIDs: preferred, timeout: wait, submissionKey: key)
        if let life { options.timeToLive = life }
        do {
            guard ending == .outcome else {
                options.timeout = max(wait, .seconds(3))
                let command = try await launcher.submit(uri, on: request, options: options)
                return ending == .stored ? progress(command, command.status, system) : try await sent(command, to: system)
            }
            let receipt = try await local.whileWaiting {
                "waiting for \(DisplayText.sanitized(system.displayName)): \(PresenceText.phrase(system.presence))"
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
            if error.code == .pending, let id = error.commandID, let command = try await local.command(id) {
                return progress(command, command.status, system)
            }
            var failure = Self.explained(error, system, uri.scheme)
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
        return progress(command, status, system)
    }

    private func progress(_ command: RemoteCommand, _ status: CommandStatus?, _ system: RemoteSystem) -> Result {
        Result(
            command: "\(command.id)",
            status: status.map(CommandList.name) ?? "stored",
            device: "\(system.id)",
            deviceName: DisplayText.sanitized(system.displayName),
            app: DisplayText.sanitized(command.target.appID),
            endpoint: "\(command.target.endpoint)",
            uri: encoded,
            expires: command.expiresAt,
            wake: status?.wake.map(CommandList.WakeResult.init)
        )
    }

    private static func explained(
        _ error: RemoteLaunchError,
        _ system: RemoteSystem,
        _ scheme: String?
    ) -> AgentError {
        var failure = AgentError(error)
        if error.code == .protocolUnavailable, let scheme {
            let name = DisplayText.sanitized(system.displayName)
            failure.message =
                AgentConfiguration.Opening.neverOpened.contains(scheme)
                ? "no app on '\(name)' takes \(scheme): URIs, and no agent opens them: they are programs for the application that opens them"
                : "no app on '\(name)' takes \(scheme): URIs. On that device, add \(scheme) to `schemes` below `open` in agent.yaml (`relay agent`), or run: relay host --scheme \(scheme)"
        }
        guard error.code == .pending else { return failure }
        failure.message =
            error.commandID.map { "not opened yet; the launch continues. See `relay commands`. Cancel: relay cancel \($0)" }
            ?? "nothing was sent"
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
