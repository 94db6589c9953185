// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The contents of the received commands and their results. The machine holds only their state. A content is in memory until it is stored,
/// or passed on, and in the journal until the command is settled.
final class InboxContents {
    typealias Result = JournalTransaction.Result

    /// A received command that the machine keeps.
    struct Arrived {
        let sealed: SealedCommand
        /// `nil` if the command will not be handled.
        let body: CommandBody?
        /// The sender's record, as it arrived with the command.
        let record: [UInt8]

        fileprivate var content: JournalTransaction.ReceivedContent { .init(blob: sealed.encoded, record: record) }
    }

    private let endpoint: EndpointContext
    private let clock: RelayClock
    private let identity: OwnIdentity
    /// Received commands, until they are stored or passed to their handlers.
    private var arriving: [CommandKey: Arrived] = [:]
    /// Stored commands that are not passed to their handlers yet.
    private var arrived = ReadThroughCache<CommandKey, Arrived>()
    /// Results that are signed and not stored yet.
    private var results: [CommandKey: Result] = [:]
    /// Results that are stored and not sent yet.
    private var storedResults = ReadThroughCache<CommandKey, Result>()

    init(_ endpoint: EndpointContext, clock: RelayClock, identity: OwnIdentity) {
        self.endpoint = endpoint
        self.clock = clock
        self.identity = identity
    }

    private var journal: Journal { endpoint.journal }

    // MARK: Commands

    func keep(_ command: Arrived, for key: CommandKey) { arriving[key] = command }

    /// The command, for its handler; `nil` if it does not exist. Its body is `nil` if it can no longer be opened.
    func take(_ key: CommandKey) async throws -> Arrived? {
        var found = arriving[key] ?? arrived.take(key)
        if found == nil { found = try await read(key) }
        arriving[key] = nil
        return found
    }

    private func read(_ key: CommandKey) async throws -> Arrived? {
        guard let content = try await journal.write({ try $0.receivedContent(key) }),
            let sealed = try? SealedCommand(decoding: content.blob)
        else { return nil }
        let keys = try identity.agreementKeys(for: sealed.header.keyID)
        return Arrived(sealed: sealed, body: try? sealed.open(with: keys), record: content.record)
    }

    // MARK: Results

    /// Signs a result once, so that the sent receipt equals the stored one.
    func signed(_ write: InboxMachine.Write) throws -> Result {
        if let result = results[write.key] { return result }
        guard let outcome = write.row.outcome else { throw CommandFailure.shutDown }
        var result: Result
        do {
            result = try sign(outcome, reply: write.reply, for: write)
        } catch is RecordError {
            // Not an error of the storage: the command ends, and the endpoint goes on.
            result = try sign(.failed(reason: "the answer of the app is not valid"), reply: nil, for: write)
        }
        results[write.key] = result
        return result
    }

    private func sign(_ outcome: CommandOutcome, reply: [UInt8]?, for write: InboxMachine.Write) throws -> Result {
        let receipt = CommandReceipt(for: write.row.command, outcome: outcome, reply: reply, time: clock.time)
        return Result(receipt: try Signed(receipt, key: endpoint.identityKey).encoded, reply: reply)
    }

    func storedResult(_ key: CommandKey) async throws -> Result? {
        if let result = storedResults.take(key) { return result }
        return try await journal.write { try $0.result(key) }
    }

    /// Frees the memory of a result that the relay has stored.
    func settled(_ key: CommandKey) { _ = storedResults.take(key) }

    // MARK: Storage

    func store(_ commit: InboxMachine.Commit) async throws {
        let writes = try commit.writes.map { write in
            let isNew = write.row.state == .received
            return (write: write, content: isNew ? arriving[write.key]?.content : nil, result: try result(of: write))
        }
        try await journal.write { transaction in
            for key in commit.removals { try transaction.remove(key) }
            for lane in commit.lanes { try transaction.removeLane(lane) }
            for (write, content, result) in writes {
                try transaction.persist(write.row, highest: write.highest, content: content, result: result)
            }
        }
        for key in commit.removals { results[key] = nil }
        for (write, _, result) in writes { stored(write, result) }
    }

    private func result(of write: InboxMachine.Write) throws -> Result? {
        switch write.row.state {
        case .received, .handling: nil
        case .answered: try signed(write)
        // Unless its result is stored already.
        case .settled: write.isResultStored ? nil : try signed(write)
        }
    }

    /// Moves a command's data to the cache for the step that follows the write.
    private func stored(_ write: InboxMachine.Write, _ result: Result?) {
        let key = write.key
        switch write.row.state {
        case .received:
            guard let command = arriving.removeValue(forKey: key) else { return }
            arrived.keep(command, for: key, bytes: command.sealed.encoded.count)
        case .handling: break
        case .settled:
            results[key] = nil
            _ = storedResults.take(key)
        case .answered:
            arriving[key] = nil
            _ = arrived.take(key)
            results[key] = nil
            if let result { storedResults.keep(result, for: key, bytes: result.receipt.count + (result.reply?.count ?? 0)) }
        }
    }
}
