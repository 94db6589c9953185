// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Sends a message to an app service that is stored for a sleeping device, and handled at most once.
struct StoredMessage: DeviceCommand {
    var target: String
    var service: String
    var message: ValueSet
    /// How long to wait for the ending.
    var wait: Duration
    var ending: Launch.Ending
    var life: Duration
    /// Makes a repeat the same message.
    var key: SubmissionKey?
    /// Throws if the message may not go to the device with this id.
    var permit: @Sendable (String) throws -> Void

    struct Result: AgentResult {
        var command: String
        /// `succeeded`, or the progress: `stored`, `accepted`, `waking`, `delivered`.
        var status: String
        var device: String
        var deviceName: String
        var app: String
        var endpoint: String
        var service: String
        var expires: Date?
        var wake: CommandList.WakeResult?
        var attested: Attestation?
        /// The answer, as JSON text, with the status `succeeded`.
        var answer: String?

        enum CodingKeys: CodingKey { case command, status, device, deviceName, app, endpoint, service, expires, wake, attested }

        func lines(_ style: Style) -> [String] { [answer.map { DisplayText.escaped(json: $0) } ?? "\(command) \(status)"] }

        func json() throws -> String {
            guard let answer else { return try JSONText.line(self) }
            return try JSONText.line(self, adding: "answer", json: answer)
        }
    }

    func run(on local: LocalDevice) async throws -> Result {
        try await local.waitForDevices(min(LocalDevice.patience, max(wait, .seconds(3))))
        let (system, app) = try await local.app(offering: service, on: target)
        try permit("\(system.id)")
        if ending != .stored { try await local.checkWay(to: system) }
        let command = try await local.platform.submitStatelessMessage(
            message,
            to: AppServiceInfo(name: service, appID: app.appID),
            on: RemoteSystemConnectionRequest(app),
            timeToLive: life,
            timeout: max(wait, .seconds(3)),
            key: key
        )
        var result = Result(
            command: "\(command.id)",
            status: "stored",
            device: "\(system.id)",
            deviceName: DisplayText.sanitized(system.displayName),
            app: DisplayText.sanitized(command.target.appID),
            endpoint: "\(command.target.endpoint)",
            service: DisplayText.sanitized(service),
            expires: command.expiresAt
        )
        if ending != .stored {
            _ = try await within(wait) { [ending] () -> Bool? in
                for await status in command.statuses where ending == .accepted || status.outcome != nil { break }
                return true
            }
        }
        guard command.isEnded else {
            result.status = command.status.map(CommandList.name) ?? "stored"
            result.wake = command.status?.wake.map(CommandList.WakeResult.init)
            return result
        }
        result.attested = command.attestation.map(local.attested)
        do {
            result.answer = try await command.answer().json()
        } catch {
            var failure = AgentError(error)
            (failure.command, failure.attested) = (command.id, result.attested)
            throw failure
        }
        result.status = "succeeded"
        return result
    }
}
