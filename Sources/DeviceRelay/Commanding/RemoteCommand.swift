// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation
public import RelayProtocol

/// A submitted command. It proceeds independently of this value and survives a restart of the process:
/// `platform.commands(for:)` then finds it.
public struct RemoteCommand: Sendable, Identifiable {
    /// Identifies the command in all processes of this endpoint.
    public let id: CommandID
    /// When the command expires, by the relay's clock. Handlers do not get it afterwards.
    public let expiresAt: Date
    /// The endpoint and app of the target.
    public let target: RemoteSystemApp.ID

    let state: CurrentValue<SentCommand.State>
    /// `nil` if the command was only read.
    let provider: (any DeviceProvider)?

    /// The progress: the current status, then each change, the final one last. A slow reader misses statuses in between, but
    /// never the final one. The sequence ends after the final status, or when the relay rejected the command.
    public var statuses: AsyncValues<CommandStatus> { AsyncValues(state) { $0.status } }

    /// The current status; `nil` if the relay has not accepted the command.
    public var status: CommandStatus? { state.value.status }

    /// Whether the command has ended. `outcome` then returns at once.
    public var isEnded: Bool { state.value.isEnded }

    /// The party that attests the outcome. `nil` before there is an outcome, and if the command ended on this device before the relay
    /// accepted it.
    public var attestation: OutcomeAttestation? {
        guard case .final(let final) = state.value else { return nil }
        return OutcomeAttestation(final, target: target.endpoint)
    }

    /// What the command carries; `nil` if it was deleted, or cannot be read.
    public func content() async -> RemoteCommandContent? {
        (try? await provider?.content(of: id)).flatMap { $0.map(RemoteCommandContent.init) }
    }

    /// Waits for the end of the command. Cancelling the task ends the wait, not the command.
    /// - Returns: The receipt, if the target's handler accepted the launch.
    /// - Throws: `RemoteLaunchError` with the outcome as its code; `pending` if the task is cancelled or the platform shut down.
    public func outcome() async throws(RemoteLaunchError) -> LaunchReceipt {
        do throws(CommandFailure) {
            return LaunchReceipt(commandID: id, target: target, OutcomeAttestation(try await final(), target: target.endpoint))
        } catch {
            throw RemoteLaunchError(error, commandID: id, attestation)
        }
    }

    /// Requests the cancellation of the command. `outcome` reports whether it came in time.
    /// - Throws: `RemoteLaunchError` with `storageFailed` if the request cannot be stored.
    public func cancel() async throws(RemoteLaunchError) {
        do throws(CommandFailure) {
            guard let provider else { throw CommandFailure.shutDown }
            try await provider.cancel(id)
        } catch {
            throw RemoteLaunchError(error, commandID: id)
        }
    }

    /// Waits for the end; throws unless the command succeeded.
    func final() async throws(CommandFailure) -> CommandFinal {
        guard let state = await state.first(where: \.isEnded) else {
            throw Task.isCancelled ? .taskCancelled : .shutDown
        }
        switch state {
        case .final(let final) where final.outcome == .succeeded: return final
        case .final(let final): throw .outcome(final.outcome)
        case .refused(let rejection): throw .refused(rejection)
        case .withdrawn: throw .withdrawn
        case .prepared, .queued, .sent, .accepted: throw .shutDown
        }
    }
}

/// Confirms that the target's handler accepted a launch.
public struct LaunchReceipt: Hashable, Sendable {
    /// The command.
    public let commandID: CommandID
    /// The endpoint and app that accepted the launch, proved by the receipt's signature.
    public let target: RemoteSystemApp.ID
    /// Who attests the launch.
    public let attestation: OutcomeAttestation
    /// When the target's endpoint signed the receipt, by the relay's clock.
    public var signedAt: Date? { attestation.signedAt }
    /// Whether the fallback URI was launched, because no app on the device accepts the URI itself.
    public internal(set) var isFallback = false

    init(commandID: CommandID, target: RemoteSystemApp.ID, _ attestation: OutcomeAttestation) {
        self.commandID = commandID
        self.target = target
        self.attestation = attestation
    }
}

/// Who attests the outcome of a command, and when.
public struct OutcomeAttestation: Hashable, Sendable {
    /// The target, whose endpoint signed a receipt, or the relay, which signs nothing.
    public let attestedBy: CommandAttestation
    /// The endpoint that the command is for.
    public let target: EndpointID
    /// When the target signed the receipt, by the relay's clock; `nil` for an outcome attested by the relay.
    public let signedAt: Date?

    init(_ final: CommandFinal, target: EndpointID) {
        attestedBy = final.attestedBy
        self.target = target
        // The signature was checked when the receipt arrived.
        let receipt = final.receipt.flatMap { try? Unverified<CommandReceipt>(decoding: $0) }
        signedAt = receipt.map { Date(timeIntervalSince1970: Double($0.payload.time) / 1_000) }
    }
}

extension SentCommand.State {
    var isEnded: Bool {
        switch self {
        case .prepared, .queued, .sent, .accepted: false
        case .withdrawn, .refused, .final: true
        }
    }

    fileprivate var status: CommandStatus? {
        switch self {
        case .prepared, .queued, .sent, .withdrawn, .refused: nil
        case .accepted(let progress): progress.status
        case .final(let final): final.status
        }
    }
}

extension RemoteCommand {
    init(_ row: SentCommand, _ state: CurrentValue<SentCommand.State>, _ provider: (any DeviceProvider)?) {
        self.init(
            id: row.command.id,
            expiresAt: Date(timeIntervalSince1970: Double(row.command.expires) / 1_000),
            target: .init(endpoint: row.command.lane.target, appID: row.command.lane.appID),
            state: state,
            provider: provider
        )
    }
}
