// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Cancels a launch that has not ended.
package struct Cancel: RoutedCommand {
    var id: CommandID

    package init(id: String) throws {
        guard let id = CommandID(id) else {
            throw AgentError("idInvalid", "a command's id looks like 019a7c3e-…: see `relay commands`", .usage)
        }
        self.id = id
    }

    package struct Result: AgentResult, Codable {
        package var command: String
        package var status: String

        package func lines(_ style: Style) -> [String] { ["cancelled: it has not run and will not"] }
    }

    package func request() -> APIRequest { APIRequest(.delete, "commands", "\(id)") }

    package func run(on local: LocalDevice) async throws -> Result {
        guard let command = try await local.command(id) else {
            throw AgentError("notFound", "there is no such command here: see `relay commands`", .notFound)
        }
        try await command.cancel()
        let isOver = try await local.whileWaiting {
            "waiting for the relay: \(await local.connectionState()?.description ?? "")"
        } _: {
            try await within(LocalDevice.patience) { try await Self.ending(of: command) }
        }
        guard isOver == nil else { return Result(command: "\(command.id)", status: "cancelled") }
        if let problem = await local.connectionState()?.problem {
            var failure = AgentError(problem)
            failure.message += "; the command is cancelled as soon as the relay can be reached"
            failure.command = command.id
            throw failure
        }
        throw AgentError("pending", "the other device has been asked, and has not answered yet", .pending, command: command.id)
    }

    /// - Throws: The outcome, if it is not the cancellation.
    private static func ending(of command: RemoteCommand) async throws -> Bool? {
        do throws(RemoteLaunchError) {
            _ = try await command.outcome()
        } catch {
            switch error.code {
            case .cancelled: return true
            // The time limit of the wait has passed.
            case .pending: return nil
            default: throw AgentError("ended", "it has already ended: \(error.message)", .failed, command: command.id)
            }
        }
        throw AgentError("ended", "it has already ended: the other device accepted it", .failed, command: command.id)
    }
}
