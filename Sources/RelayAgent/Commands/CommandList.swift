// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import Foundation
import RelayProtocol

/// Lists the launches that this device has sent: all open ones, and the latest finished ones.
package struct CommandList: RoutedCommand {
    package init() {}

    package struct Entry: Codable, Sendable {
        package var id: String
        /// `stored` (not at the relay yet), `accepted`, `waking`, `delivered`, `succeeded`, or the code of the failure.
        package var status: String
        package var ended: Bool
        package var message: String?
        package var deviceName: String?
        package var endpoint: String
        package var app: String
        /// The URI of a launch. Only a person's requests get what a command carries.
        package var uri: String?
        /// The service of a message.
        package var service: String?
        package var sent: Date
        package var expires: Date
        /// What the relay knows of the wake, with the status `waking`.
        package var wake: WakeResult?
        /// Who attests the outcome.
        package var attested: Attestation?

        func with(_ content: RemoteCommandContent?) -> Entry {
            var entry = self
            entry.uri = content?.uri?.text
            if case .message(let service) = content { entry.service = DisplayText.sanitized(service) }
            return entry
        }
    }

    /// A wake that the relay has sent to a sleeping device.
    package struct WakeResult: Codable, Sendable {
        /// The push service, if it is known.
        package var channel: String?
        /// How long the device took to answer its last wake, in seconds.
        package var expectedWithin: Double?

        init(_ wake: CommandWake) {
            channel = wake.channel.map(DisplayText.sanitized)
            expectedWithin = wake.expectedWithin.map { $0 / .seconds(1) }
        }
    }

    package struct Result: AgentResult, Codable {
        package var commands: [Entry]
        /// Whether the relay was asked. Otherwise the list is the last known state.
        package var current: Bool
        /// Why the relay could not be asked.
        package var problem: String?

        package var notes: [String] { commands.isEmpty ? ["no launches were sent from here"] : [] }

        package func lines(_ style: Style) -> [String] {
            guard !commands.isEmpty else { return [] }
            var table = Table("ID", "SENT", "ATTESTED BY", "DEVICE", "APP", "STATUS")
            for command in commands {
                let name = command.deviceName ?? String(command.endpoint.prefix(8))
                table.add(
                    .init(name: command.id),
                    .init(LocalTime.text(command.sent)),
                    .init(command.attested.map { "\($0.label)\($0.time.map { ", \(LocalTime.text($0))" } ?? "")" } ?? "-"),
                    .init(name: name),
                    .init(name: command.app),
                    // The last one, because it may have a long reason.
                    .init(
                        StateText.Command(status: command.status).text(on: name, command.message),
                        command.status == "succeeded" ? .good : command.ended ? .faint : .attention
                    )
                )
            }
            return table.lines(style)
        }
    }

    package func request() -> APIRequest { APIRequest(.get, "commands") }

    package func run(on local: LocalDevice) async throws -> Result {
        var problem: String?
        do { try await local.waitForDirectory() } catch { problem = AgentError(error).message }
        return await Self.result(try await local.commands(), local.endpoints, problem)
    }

    package func runHere(_ context: AgentContext) async throws -> Result {
        try await context.withAccount {
            try await run(on: $0)
        } orStored: { contents, failure in
            await Self.result(contents.commands, contents.directory.sortedEndpoints, failure.message)
        }
    }

    private static func result(
        _ commands: [RemoteCommand],
        _ endpoints: [DeviceDirectory.Endpoint],
        _ problem: String?
    ) async -> Result {
        var entries: [Entry] = []
        for command in commands { entries.append(await entry(command, endpoints).with(await command.content())) }
        return Result(commands: entries, current: problem == nil, problem: problem)
    }

    /// The state of one command, as far as this device knows it.
    static func entry(_ id: CommandID, on local: LocalDevice) async throws -> Entry? {
        guard let command = try await local.command(id) else { return nil }
        return await entry(command, local.endpoints)
    }

    private static func entry(_ command: RemoteCommand, _ endpoints: [DeviceDirectory.Endpoint]) async -> Entry {
        var entry = Entry(
            id: "\(command.id)",
            status: command.status.map(name) ?? "stored",
            ended: command.isEnded,
            deviceName: endpoints.first { $0.id == command.target.endpoint }.map { DisplayText.sanitized($0.record.name) },
            endpoint: "\(command.target.endpoint)",
            app: DisplayText.sanitized(command.target.appID),
            sent: command.id.time,
            expires: command.expiresAt,
            wake: command.status?.wake.map(WakeResult.init),
            attested: command.attestation.map { Attestation($0, in: endpoints) }
        )
        guard entry.ended else { return entry }
        do throws(RemoteLaunchError) {
            _ = try await command.outcome()
            entry.status = "succeeded"
        } catch {
            entry.status = "\(error.code)"
            entry.message = error.message
        }
        return entry
    }

    static func name(of status: CommandStatus) -> String {
        switch status.outcome {
        case nil: "\(status)"
        case .succeeded: "succeeded"
        default: "ended"
        }
    }
}
