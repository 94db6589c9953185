// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A command that was submitted. It goes on by itself, whether anybody waits for it or not, also when this process ends and begins
/// again; `platform.commands(for:)` finds it then.
public struct RemoteCommand: Sendable, Identifiable {
    /// Names it, in any process of this endpoint.
    public let id: CommandID
    /// When its time is over, by the relay's clock: from then on no handler gets it.
    public let expiresAt: Date
    /// The endpoint and app that it is for.
    public let target: RemoteSystemApp.ID

    let state: CurrentValue<SentCommand.State>
    let endpoint: LocalEndpoint

    /// How far it is, from now on: first what it is now, last how it ended. A slow reader misses steps in between, never the last one.
    public var statuses: Statuses { Statuses(state: state) }

    /// How far it is now; `nil` while the relay has not taken it, and if it never will.
    public var status: CommandStatus? { state.value.status }

    /// Whether it has ended: `outcome` tells at once how.
    public var isEnded: Bool { state.value.isEnded }

    /// Who says how it ended; `nil` while it has not, and if it ended here before the relay took it.
    public var attestation: OutcomeAttestation? {
        guard case .final(let final) = state.value else { return nil }
        return OutcomeAttestation(final)
    }

    /// Waits until it has ended. Cancelling the task ends the waiting, not the command.
    /// - Returns: The receipt, if the other side's handler took it.
    /// - Throws: `RemoteLaunchError`, whose code says how it ended; `pending` if the task is cancelled or the platform shut down.
    public func outcome() async throws(RemoteLaunchError) -> LaunchReceipt {
        do throws(CommandTrouble) {
            let attestation = OutcomeAttestation(try await final())
            return LaunchReceipt(commandID: id, target: target, signedAt: attestation.signedAt)
        } catch {
            throw RemoteLaunchError(error, commandID: id)
        }
    }

    /// Asks that it be not handled any more. Its outcome tells whether that came in time.
    /// - Throws: `RemoteLaunchError` with `storageFailed` if the wish cannot be stored.
    public func cancel() async throws(RemoteLaunchError) {
        do throws(CommandTrouble) {
            try await endpoint.cancel(id)
        } catch {
            throw RemoteLaunchError(error, commandID: id)
        }
    }

    /// How it ended, if well.
    func final() async throws(CommandTrouble) -> CommandFinal {
        guard let state = await state.first(where: \.isEnded) else {
            throw Task.isCancelled ? .taskCancelled : .shutDown
        }
        switch state {
        case .final(let final) where final.outcome == .succeeded: return final
        case .final(let final): throw .outcome(final.outcome)
        case .refused(let refusal): throw .refused(refusal)
        case .withdrawn: throw .withdrawn
        case .prepared, .queued, .sent, .accepted: throw .shutDown
        }
    }

    /// How far a command is, as it changes. Ends after the final status, or when the command was refused.
    public struct Statuses: AsyncSequence, Sendable {
        let state: CurrentValue<SentCommand.State>

        /// Begins with the status of now.
        public func makeAsyncIterator() -> Iterator { Iterator(state: state) }

        /// Of one reader.
        public struct Iterator: AsyncIteratorProtocol {
            let state: CurrentValue<SentCommand.State>
            private var seen: UInt64 = 0
            private var told: CommandStatus?

            init(state: CurrentValue<SentCommand.State>) { self.state = state }

            /// The newest status, once there is one that was not told; `nil` at the end.
            public mutating func next(isolation: isolated (any Actor)?) async -> CommandStatus? {
                while let (value, revision) = await state.next(after: seen) {
                    seen = revision
                    guard let status = value.status, status != told else { continue }
                    told = status
                    return status
                }
                return nil
            }

            /// The newest status, once there is one that was not told; `nil` at the end.
            public mutating func next() async -> CommandStatus? { await next(isolation: nil) }
        }
    }
}

/// The other side's handler took a launch.
public struct LaunchReceipt: Hashable, Sendable {
    /// The command.
    public let commandID: CommandID
    /// The endpoint and app that took it, as its signature proves.
    public let target: RemoteSystemApp.ID
    /// When the target's endpoint signed the receipt, in the relay's time.
    public let signedAt: Date?
    /// It was the fallback URI: nothing there took the URI itself.
    public internal(set) var isFallback = false

    init(commandID: CommandID, target: RemoteSystemApp.ID, signedAt: Date?) {
        self.commandID = commandID
        self.target = target
        self.signedAt = signedAt
    }
}

/// Who says how a command ended, and when they said it.
public struct OutcomeAttestation: Hashable, Sendable {
    /// The target, whose endpoint has signed a receipt, or the relay, which signs none.
    public let attestedBy: CommandAttestation
    /// When the target signed, in the relay's time; `nil` of the relay's word.
    public let signedAt: Date?

    init(_ final: CommandFinal) {
        attestedBy = final.attestedBy
        // Its signature was checked when it came.
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
    init(_ row: SentCommand, _ state: CurrentValue<SentCommand.State>, _ endpoint: LocalEndpoint) {
        self.init(
            id: row.command.id,
            expiresAt: Date(timeIntervalSince1970: Double(row.command.expires) / 1_000),
            target: .init(endpoint: row.command.lane.target, appID: row.command.lane.appID),
            state: state,
            endpoint: endpoint
        )
    }
}
