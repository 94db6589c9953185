// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTracing

/// The contents of the sent commands. The machine holds only their state. A content is in memory until it is sent, and in the journal until
/// the command is deleted.
final class OutboxContents {
    /// A command that was signed again and is not stored yet.
    struct Resigned {
        let command: CommandDescriptor
        fileprivate let content: JournalTransaction.ResignedContent
    }

    private let endpoint: EndpointContext
    private let clock: RelayClock
    /// The blobs of commands that are not sent yet.
    private var blobs = ReadThroughCache<CommandID, [UInt8]>()
    private var resigned: [CommandID: Resigned] = [:]
    private var ids = CommandIDGenerator()

    init(_ endpoint: EndpointContext, clock: RelayClock) {
        self.endpoint = endpoint
        self.clock = clock
    }

    private var journal: Journal { endpoint.journal }

    /// The header of a new command, still without its number.
    func header(
        _ body: CommandBody,
        to target: ResolvedTarget,
        _ record: Signed<EndpointRecord>,
        account: String,
        life: Duration,
        senderApp: String?
    ) -> CommandHeader {
        var random = SystemRandomNumberGenerator()
        let created = clock.time
        var header = CommandHeader(
            id: ids.next(now: UInt64(clamping: max(0, created)), using: &random),
            account: account,
            relay: endpoint.relay,
            sender: endpoint.id,
            target: target.endpoint,
            senderApp: senderApp,
            targetApp: target.appID,
            keyID: record.payload.agreementKey.keyID,
            kind: body.kind,
            number: 1,
            created: created,
            expires: created + min(max(life.milliseconds, 1), CommandPeriod.maximumLife)
        )
        header.trace = Trace.current
        return header
    }

    /// Seals and stores a command. The header gets the next number of its lane.
    /// - Parameters:
    ///   - isConnected: As for `SentCommand.prepare`.
    ///   - submission: The key of the submission. If it has a command already, that one is returned, and nothing is stored.
    ///   - isDirect: Whether a direct session with the target is open. If the lane has no other open command, the command is then marked as
    ///     direct in the same commit.
    /// - Returns: The stored row, the lane's earlier commands without an answer, and whether the command is new.
    func insert(
        _ body: CommandBody,
        _ header: CommandHeader,
        for record: Signed<EndpointRecord>,
        under submission: SubmissionKey?,
        isConnected: Bool,
        isDirect: Bool
    ) async throws -> (row: SentCommand, others: [CommandID], isNew: Bool) {
        let key = endpoint.identityKey
        let lowest = clock.lowestNumber
        let (row, blob, others) = try await journal.write { transaction -> (SentCommand, [UInt8]?, [CommandID]) in
            var header = header
            if let submission, let earlier = try transaction.submitted(submission, now: header.created) { return (earlier, nil, []) }
            let others = try transaction.unansweredCommands(to: header.target, appID: header.targetApp)
            header.number = try transaction.nextNumber(to: header.target, appID: header.targetApp, from: lowest)
            let command = try SealedCommand(body, header: header, target: record.payload.agreementKey, key: key)
            var (row, _) = SentCommand.prepare(command.descriptor, isConnected: isConnected)
            if isDirect, try !transaction.hasOpenCommands(in: header.lane), let marked = row.markedDirect { row = marked }
            let content = JournalTransaction.SentContent(
                blob: command.encoded,
                body: try body.encodedBytes(),
                target: record.encoded
            )
            try transaction.insert(row, content)
            if let submission { try transaction.keep(submission, of: row.command) }
            return (row, command.encoded, others)
        }
        journal.commandsChanged()
        guard let blob else { return (row, others, false) }
        blobs.keep(blob, for: header.id, bytes: blob.count)
        return (row, others, true)
    }

    /// The sealed command, to send it.
    func blob(of id: CommandID) async throws -> [UInt8]? {
        if let blob = blobs.take(id) { return blob }
        return try await journal.write { try $0.sentContent(id)?.blob }
    }

    /// Frees the memory of an ended command.
    func ended(_ id: CommandID) { _ = blobs.take(id) }

    // MARK: Storage

    /// - Returns: The stored rows of commands that another process has ended or signed again.
    func store(_ rows: [SentCommand]) async throws -> [SentCommand] {
        let writes = rows.map { row in
            let content = resigned[row.command.id].flatMap { $0.command.digest == row.command.digest ? $0.content : nil }
            if content != nil { resigned[row.command.id] = nil }
            return (row: row, content: content)
        }
        let superseded = try await journal.write { transaction in
            try writes.compactMap { try transaction.update($0.row, $0.content) ? nil : try transaction.sent($0.row.command.id) }
        }
        for row in superseded { _ = blobs.take(row.command.id) }
        journal.commandsChanged()
        return superseded
    }

    /// Stores rows, and reads all open commands and the ended ones among the watched.
    func load(
        storing rows: [SentCommand],
        watched: [CommandID]
    ) async throws -> (open: [SentCommand], known: [SentCommand]) {
        let loaded = try await journal.write { transaction in
            for row in rows { try transaction.update(row) }
            return (open: try transaction.openCommands(), known: try watched.compactMap { try transaction.sent($0) })
        }
        // Another process may have signed commands again.
        blobs = ReadThroughCache()
        if !rows.isEmpty { journal.commandsChanged() }
        return loaded
    }

    /// Stores rows, and marks all open commands to a target as direct.
    /// - Returns: These commands, and the watched ones.
    func markDirect(
        to target: EndpointID,
        storing rows: [SentCommand],
        watched: [CommandID]
    ) async throws -> (open: [SentCommand], known: [SentCommand]) {
        try await journal.write { transaction in
            for row in rows { try transaction.update(row) }
            return (open: try transaction.markDirect(to: target), known: try watched.compactMap { try transaction.sent($0) })
        }
    }

    /// The sealed command, to offer it. Another process may have signed it again since it was kept here.
    func offered(_ command: CommandDescriptor) async throws -> [UInt8]? {
        if let blob = blobs.take(command.id), Digest256(hashing: blob) == command.digest { return blob }
        return try await journal.write { try $0.sentContent(command.id)?.blob }
    }

    /// Drops unstored signatures after a failed write.
    func storeFailed() { resigned = [:] }

    // MARK: Signing again

    /// Signs the same command again with the relay's time: the clocks of relay and device differ too much, or the lane is behind.
    /// - Parameter number: The highest number that another party has seen in the lane. The command gets a higher one, and still expires at
    ///   the same time.
    func signAnew(_ id: CommandID, above number: UInt64?) async throws -> Resigned? {
        guard let content = try await journal.write({ try $0.sentContent(id) }) else { return nil }
        let old = try SealedCommand(decoding: content.blob)
        let target = try Signed<EndpointRecord>(verifying: content.target)
        var header = old.header
        header.created = clock.time
        if let number {
            let (lane, lowest) = (header.lane, clock.lowestNumber)
            header.firstNumber = header.firstNumber ?? header.number
            header.number = try await journal.write { transaction in
                try transaction.raiseLane(lane, to: number)
                return try transaction.nextNumber(to: lane.target, appID: lane.appID, from: lowest)
            }
            header.expires = max(header.expires, header.created + 1)
        } else {
            header.expires = header.created + (old.header.expires - old.header.created)
        }
        let body = try CommandBody(decoding: content.body, kind: header.kind, limits: Limits())
        let command = try SealedCommand(body, header: header, target: target.payload.agreementKey, key: endpoint.identityKey)
        return Resigned(
            command: command.descriptor,
            content: .init(.init(blob: command.encoded, body: content.body, target: content.target), insteadOf: old.descriptor.digest)
        )
    }

    /// The next write of this command stores the new content.
    func keep(_ command: Resigned) { resigned[command.command.id] = command }

    // MARK: The end of a command

    /// The target's reply to a command that succeeded.
    func reply(to id: CommandID, _ final: CommandFinal) async throws -> ValueSet? {
        guard let reply = final.reply, let content = try await journal.write({ try $0.sentContent(id) }) else { return nil }
        return try SealedReply(decoding: reply).open(SealedCommand(decoding: content.blob), with: endpoint.storage.agreementKeys())
    }

    /// The target's record that was stored with the command.
    func targetRecord(of id: CommandID) async throws -> EndpointRecord? {
        guard let content = try await journal.write({ try $0.sentContent(id) }) else { return nil }
        return try? Signed<EndpointRecord>(verifying: content.target).payload
    }
}
