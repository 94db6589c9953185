// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// The place of a change in the order of all changes of an endpoint's commands.
public struct CommandSequence: RawRepresentable, Hashable, Comparable, Sendable {
    /// The sequence as a number.
    public let rawValue: Int64

    /// Creates a sequence from its number.
    public init(rawValue: Int64) { self.rawValue = rawValue }

    /// Whether the first change was before the second one.
    public static func < (first: CommandSequence, second: CommandSequence) -> Bool { first.rawValue < second.rawValue }
}

/// A change of a command's state, by any process of the endpoint. It is stored in the transaction that made it.
public struct CommandChange: Hashable, Sendable {
    /// How many changes are kept.
    static let kept = 10_000

    /// The command's state after the change.
    public enum State: Hashable, Sendable {
        /// It is stored, and the relay has not accepted it.
        case stored
        /// The relay has it, or its target.
        case progress(CommandStatus)
        /// It ended with the target's or the relay's outcome, or before the relay accepted it.
        case ended
    }

    /// Its place among all changes.
    public let sequence: CommandSequence
    /// The command.
    public let id: CommandID
    /// The command's state after the change.
    public let state: State
}

/// The next changes of an endpoint's commands.
public struct CommandChanges: Hashable, Sendable {
    /// The changes, the oldest first.
    public let changes: [CommandChange]
    /// Whether changes after the sequence that was asked for are no longer kept. The commands then have to be read again.
    public let hasGap: Bool
}

extension ConnectedDevicesPlatform {
    /// Waits for changes of an account's commands, and returns up to 256 of them, the oldest first.
    /// - Parameters:
    ///   - account: An account of this platform.
    ///   - sequence: The last change that is known.
    /// - Throws: `RemoteLaunchError`: `notSignedIn`, `storageFailed`, and `pending` if the task is cancelled or the platform shut down.
    public func commandChanges(
        for account: ConnectedDevicesAccount,
        after sequence: CommandSequence
    ) async throws(RemoteLaunchError) -> CommandChanges {
        guard let endpoint = endpoint(of: account.id) else { throw RemoteLaunchError(.noAccount) }
        let journal = endpoint.journal
        await endpoint.followCommands()
        while true {
            let seen = journal.commandRevision.value
            let next = try await read(journal) { try $0.commandChanges(after: sequence) }
            guard next.changes.isEmpty, !next.hasGap else { return next }
            if await journal.commandRevision.first(where: { $0 != seen }) == nil {
                throw RemoteLaunchError(Task.isCancelled ? .taskCancelled : .shutDown)
            }
        }
    }

    /// The newest change of an account's commands.
    /// - Throws: `RemoteLaunchError`: `notSignedIn`, `storageFailed`.
    public func lastCommandChange(for account: ConnectedDevicesAccount) async throws(RemoteLaunchError) -> CommandSequence {
        guard let journal = endpoint(of: account.id)?.journal else { throw RemoteLaunchError(.noAccount) }
        return try await read(journal) { try $0.lastCommandChange() }
    }

    /// The commands of an account whose keys have this principal and are still kept.
    package func submissions(of principal: String, for account: ConnectedDevicesAccount) async throws(RemoteLaunchError) -> [CommandID] {
        guard let journal = endpoint(of: account.id)?.journal else { throw RemoteLaunchError(.noAccount) }
        return try await read(journal) { try $0.submissions(of: principal) }
    }

    private func read<Value: Sendable>(
        _ journal: Journal,
        _ body: @escaping @Sendable (JournalTransaction) throws -> Value
    ) async throws(RemoteLaunchError) -> Value {
        do {
            return try await journal.write(body)
        } catch {
            throw RemoteLaunchError(.storage(error))
        }
    }
}
