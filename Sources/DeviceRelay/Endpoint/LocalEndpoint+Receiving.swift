// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol
import RelayStorage

/// What is done for the commands that came, one after the other.
enum ReceivedWork {
    /// Asked for by the state machine, on a connection.
    case action(CommandTarget.Action, attempt: Int)
    /// What was noted has waited long enough.
    case storeNoted

    /// Whether storing is all there is to it.
    var isWrite: Bool {
        switch self {
        case .action(.persist, _), .action(.removeLane, _), .storeNoted: true
        case .action: false
        }
    }
}

/// A command that came, and was found good.
struct ArrivedCommand {
    let sealed: SealedCommand
    /// `nil` if it will not be handled.
    let body: CommandBody?
    /// Of its sender, as it came with it.
    let record: [UInt8]

    var content: JournalTransaction.ReceivedContent { .init(blob: sealed.encoded, record: record) }
}

/// A command that is over, and not stored so.
struct AnsweredCommand {
    let row: CommandTarget.Row
    let result: JournalTransaction.Result
}

/// A command that came before the relay has told all endpoints there are, from a sender that is not known yet.
struct HeldCommand {
    let key: CommandKey
    let message: RelayMessage.Command
}

/// A command that an app is handling.
struct Handler {
    let started: Int64
    let cancellation: RequestCancellation
    var task: Task<Void, Never>?
    var timer: Scheduled<Void>?
}

// Commands for this endpoint.
extension LocalEndpoint {
    private var clock: TargetClock { TargetClock(own: wallTime, relay: relayTime) }

    /// Goes on with what is stored. Only the host does: of clients beside it the commands are none of their business.
    func startTarget() {
        guard channel.role == .host else { return }
        perform(received.start(clock))
    }

    func connectedAsTarget() {
        guard channel.role == .host else { return }
        perform(received.connected())
    }

    func perform(_ actions: [CommandTarget.Action]) {
        for action in actions { receivedWork.append(.action(action, attempt: channel.attempt)) }
        workOnReceived()
    }

    /// Results that are on their way are not, if the connection is gone.
    func disconnectedAsTarget() {
        storeNotedResults()
    }

    func workOnReceived() {
        guard storageTrouble.until == nil, receivedWork.begin() else { return }
        if spawn({ await $0.runReceivedWork() }) == nil { receivedWork.fail() }
    }

    /// What cannot be stored now, and all that follows from it, waits until it can: a handler's answer is not lost by a full disk.
    private func runReceivedWork() async {
        while let batch = receivedWork.next() {
            var left = batch[...]
            do {
                let results = try sign(batch)
                while let work = left.first {
                    if work.isWrite {
                        try await store(left, results)
                        // What is stored is not stored again.
                        left = left.filter { !$0.isWrite }[...]
                    } else {
                        if case .action(let action, let attempt) = work { try await perform(action, attempt, results) }
                        left.removeFirst()
                    }
                }
            } catch {
                receivedWork.putBack(left)
                return storageFailed(error)
            }
        }
    }

    /// The results that some work is about to store, or to note.
    private func sign(_ batch: [ReceivedWork]) throws -> [CommandKey: JournalTransaction.Result] {
        var results: [CommandKey: JournalTransaction.Result] = [:]
        for work in batch {
            let (row, reply): (CommandTarget.Row, [UInt8]?)
            switch work {
            case .action(.persist(let persisted, _, let its), _): (row, reply) = (persisted, its)
            case .action(.note(let noted, let its), _): (row, reply) = (noted, its)
            default: continue
            }
            guard case .answered(let outcome) = row.state, answered[row.command.key] == nil else { continue }
            let receipt = CommandReceipt(for: row.command, outcome: outcome, reply: reply, time: relayTime)
            results[row.command.key] = .init(receipt: try Signed(receipt, key: identityKey).encoded, reply: reply)
        }
        return results
    }

    /// Stores, in one commit, what some work asks for, and deletes what is settled.
    private func store(_ batch: ArraySlice<ReceivedWork>, _ results: [CommandKey: JournalTransaction.Result]) async throws {
        // Of one command only what it has come to.
        var rows: [(row: CommandTarget.Row, highest: UInt64?)] = []
        var indices: [CommandKey: Int] = [:]
        var lanes: [CommandLane] = []
        var noted: [AnsweredCommand] = []
        for work in batch {
            switch work {
            case .action(.persist(let row, let highest, _), _):
                if let index = indices[row.command.key] {
                    rows[index] = (row, rows[index].highest ?? highest)
                } else {
                    indices[row.command.key] = rows.count
                    rows.append((row, highest))
                }
            case .action(.removeLane(let lane), _): lanes.append(lane)
            case .storeNoted: noted = isConnected ? answered.due(now: now) : answered.all
            case .action: break
            }
        }
        var (waiting, ended): ([CommandKey], [CommandKey]) = ([], [])
        let writes = rows.map { row, highest in
            let key = row.command.key
            var (content, result): (JournalTransaction.ReceivedContent?, JournalTransaction.Result?)
            switch row.state {
            case .received:
                content = arriving[key]?.content
                waiting.append(key)
            case .handling: break
            case .answered:
                result = results[key]
                ended.append(key)
            }
            return (row: row, highest: highest, content: content, result: result)
        }
        let (gone, unused, results) = (settled, lanes, noted)
        settled = []
        guard !writes.isEmpty || !gone.isEmpty || !unused.isEmpty || !results.isEmpty else { return }
        do {
            try await journal.write { transaction in
                // First, since the same command may have come again.
                for key in gone { try transaction.remove(key) }
                for lane in unused { try transaction.removeLane(lane) }
                for write in writes {
                    try transaction.persist(write.row, highest: write.highest, content: write.content, result: write.result)
                }
                for answer in results { try transaction.persist(answer.row, highest: nil, result: answer.result) }
            }
        } catch {
            settled.formUnion(gone)
            throw error
        }
        for answer in noted { answered.remove(answer.row.command.key) }
        for key in waiting {
            guard let command = arriving.removeValue(forKey: key) else { continue }
            arrived.keep(command, for: key, bytes: command.sealed.encoded.count)
        }
        for key in ended {
            arriving[key] = nil
            _ = arrived.take(key)
        }
    }

    /// Keeps a result until the relay has settled it, or for so long that it is better stored.
    private func note(_ row: CommandTarget.Row, _ result: JournalTransaction.Result) {
        answered.keep(AnsweredCommand(row: row, result: result), for: row.command.key, now: now)
        if isConnected { linger() } else { storeNotedResults() }
    }

    private var isConnected: Bool { if case .connected = channel.status { true } else { false } }

    /// Stores the results that have waited long enough, or all if they wait for nothing, and deletes what is settled.
    func storeNotedResults() {
        guard !answered.isEmpty || !settled.isEmpty else { return }
        receivedWork.append(.storeNoted)
        workOnReceived()
    }

    private func forget(_ key: CommandKey) {
        answered.remove(key)
        settled.insert(key)
        linger()
    }

    private func perform(
        _ action: CommandTarget.Action,
        _ attempt: Int,
        _ results: [CommandKey: JournalTransaction.Result]
    ) async throws {
        let isCurrent = attempt == channel.attempt
        switch action {
        case .persist, .removeLane: break
        case .note(let row, _): if let result = results[row.command.key] { note(row, result) }
        case .remove(let key): forget(key)
        case .sendReceived(let key): if isCurrent { say(.commandReceived(.init(sender: key.sender, id: key.id))) }
        case .sendResult(let key):
            guard isCurrent, !settled.contains(key) else { return }
            var result = results[key] ?? answered[key]?.result
            if result == nil { result = try await journal.write { try $0.result(key) } }
            if let result { send(result, for: key) }
        case .sendUnstoredResult(let command, let outcome):
            guard isCurrent else { return }
            let receipt = try Signed(CommandReceipt(for: command, outcome: outcome, time: relayTime), key: identityKey)
            send(.init(receipt: receipt.encoded, reply: nil), for: command.key)
        case .handle(let command): try await handle(command)
        case .extendTime(let key): extendTime(key)
        case .tellCancelled(let key): handlers[key]?.cancellation.cancel()
        case .stopHandler(let key): stopHandler(key)
        case .disconnect(let exceeded):
            logger.warning("the relay offers more than there is room for", metadata: ["limit": "\(exceeded)"])
            socket?.close(code: 1008, reason: "\(exceeded.limit.rawValue)")
        }
    }

    private func send(_ result: JournalTransaction.Result, for key: CommandKey) {
        request {
            .commandResult(
                .init(ref: $0, sender: key.sender, id: key.id, receipt: Blob(result.receipt), reply: result.reply.map { Blob($0) })
            )
        } answer: { endpoint, answer in
            switch answer {
            case .settled, .ok: endpoint.perform(endpoint.received.settled(key))
            // The relay does not know the command yet, or cannot store its end now: it is told again on the next connection.
            case .failure(let failure):
                endpoint.logger.info("a result was not settled", metadata: ["code": "\(failure.code)"])
            case .connectionLost: break
            }
        }
    }

    // MARK: What the relay says

    func offered(_ message: RelayMessage.Command) {
        guard channel.role == .host else { return }
        // What cannot be read cannot be answered either.
        guard let command = try? SealedCommand(decoding: message.command.bytes) else {
            return logger.warning("the relay offered a command that cannot be read")
        }
        if isToBeHeld(command) {
            if heldCommands.count < Self.maximumHeldCommands {
                return heldCommands.append(HeldCommand(key: command.descriptor.key, message: message))
            }
            takeHeldCommands()
        }
        take(command, message)
    }

    private func take(_ command: SealedCommand, _ message: RelayMessage.Command) {
        let descriptor = command.descriptor
        let isKnown = received.knows(descriptor)
        let (check, body) = isKnown ? (.valid, nil) : check(command, message.sender)
        let actions = received.offered(descriptor, check: check, clock)
        if !isKnown, received.knows(descriptor), let record = message.sender?.record {
            arriving[descriptor.key] = ArrivedCommand(sealed: command, body: body, record: record.bytes)
        }
        perform(actions)
    }

    /// A relay that keeps to its own bounds has no more under way.
    private static let maximumHeldCommands = 16

    /// Whether a command has to wait for the enumeration: the endpoints that vouch for its sender may be told only there. All of a sender wait, so
    /// that their order stays.
    private func isToBeHeld(_ command: SealedCommand) -> Bool {
        let sender = command.header.sender
        return (!peers.isConfirmed(sender) || heldCommands.contains { $0.key.sender == sender }) && !link.value.isEnumerated
    }

    /// The relay has told all endpoints there are, or no command may wait any longer.
    func takeHeldCommands() {
        let held = heldCommands
        heldCommands = []
        for held in held {
            if let command = try? SealedCommand(decoding: held.message.command.bytes) { take(command, held.message) }
        }
    }

    func cancelled(_ message: RelayMessage.CommandCancel) {
        let key = CommandKey(sender: message.sender, id: message.id)
        if heldCommands.contains(where: { $0.key == key }) { takeHeldCommands() }
        perform(received.cancelled(key))
    }

    private func check(_ command: SealedCommand, _ introduction: Introduction?) -> (CommandCheck, CommandBody?) {
        guard let relayAccount, let introduction else { return (.unverifiable, nil) }
        let header = command.header
        // It is answered, so that it does not take the room of others' commands at the relay.
        guard !peers.isRefused(header.sender) else { return (.forged(reason: "the sender was revoked on this device"), nil) }
        guard let peer = try? introduce(introduction, as: header.sender) else { return (.unverifiable, nil) }
        for action in peer.actions { perform(action) }
        let recipient = SealedCommand.Recipient(account: relayAccount, relay: relay, endpoint: id)
        do throws(CommandError) {
            // Expiry is for the state machine, when it is the command's turn.
            try command.verify(for: recipient, from: peer.record, now: .min)
        } catch {
            return (.forged(reason: "the command is not signed by its sender for this device"), nil)
        }
        guard let app = apps[header.targetApp]?.registration else { return (.appUnknown, nil) }
        do {
            let body = try command.open(with: agreementKeys(for: header.keyID))
            return (AccessPolicy.check(body, from: header.sender, header.senderApp, isNew: peer.isNew, to: app), body)
        } catch let error as StorageError {
            // Of the command that says nothing. It is offered again on the next connection.
            storageFailed(error)
            return (.unverifiable, nil)
        } catch {
            let reason = "the command cannot be opened; the sender has to learn this device's new key, and try again"
            return (.refused(.failed(reason: reason)), nil)
        }
    }

    // MARK: Handlers

    private func handle(_ command: CommandDescriptor) async throws {
        let key = command.key
        var arrived = arriving.removeValue(forKey: key) ?? arrived.take(key)
        if arrived == nil { arrived = try await read(key) }
        if let instead = received.expiresBeforeHandling(key, clock) { return perform(instead) }
        if peers.isRefused(key.sender) { return end(key, .declined) }
        let cancellation = RequestCancellation()
        handlers[key] = Handler(started: now, cancellation: cancellation)
        setTimer(key, CommandPeriod.handling)
        guard let arrived, let body = arrived.body, let sender = record(arrived.record, of: command.lane.sender)
        else { return end(key, .failed(reason: "the command cannot be opened any more")) }
        let sealed = arrived.sealed
        guard let app = apps[sealed.header.targetApp]?.registration else { return end(key, .unsupported) }
        let caller = AppServiceCaller(
            accountID: account.id,
            deviceName: sender.name,
            systemID: sender.systemID,
            endpoint: command.lane.sender,
            appID: sealed.header.senderApp,
            isNew: !peers.isConfirmed(command.lane.sender)
        )
        // The newest key there is; the one that it was sent with may have been replaced since.
        let senderKey = (peers.record(of: command.lane.sender) ?? sender).agreementKey
        handlers[key]?.task = spawn { endpoint in
            let extend: @Sendable () async -> Void = { [weak endpoint] in await endpoint?.handlerAskedForTime(key) }
            let (outcome, answer) = await CommandHandling.run(body, app, caller, cancellation, extend)
            endpoint.handled(key, outcome, answer, sealed, senderKey)
        }
    }

    /// A command as it was stored. What is not there, or does not open any more, is `nil`.
    private func read(_ key: CommandKey) async throws -> ArrivedCommand? {
        guard let content = try await journal.write({ try $0.receivedContent(key) }),
            let sealed = try? SealedCommand(decoding: content.blob)
        else { return nil }
        let keys = try agreementKeys(for: sealed.header.keyID)
        return ArrivedCommand(sealed: sealed, body: try? sealed.open(with: keys), record: content.record)
    }

    /// What a sender's record says, which is not checked once more if it is the one that is known.
    private func record(_ encoded: [UInt8], of sender: EndpointID) -> EndpointRecord? {
        if let known = peers.signedRecord(of: sender), known.encoded == encoded { return known.payload }
        return try? Signed<EndpointRecord>(verifying: encoded).payload
    }

    private func handled(
        _ key: CommandKey,
        _ outcome: CommandOutcome,
        _ answer: ValueSet?,
        _ command: SealedCommand,
        _ senderKey: AgreementPublicKey
    ) {
        // A handler that was stopped by the end of the platform has not answered: after a restart nobody can know.
        guard !isShutDown, handlers[key] != nil else { return }
        guard let answer else { return end(key, outcome) }
        guard let reply = try? SealedReply(answer, to: command, sender: senderKey) else {
            return end(key, .failed(reason: "the answer cannot be sealed for its sender"))
        }
        end(key, outcome, reply: reply.encoded)
    }

    private func end(_ key: CommandKey, _ outcome: CommandOutcome, reply: [UInt8]? = nil) {
        handlers.removeValue(forKey: key)?.timer?.cancel()
        perform(received.handlerEnded(key, outcome, reply: reply, clock))
    }

    private func handlerAskedForTime(_ key: CommandKey) { perform(received.handlerAskedForTime(key)) }

    private func extendTime(_ key: CommandKey) {
        guard let handler = handlers[key] else { return }
        setTimer(key, handler.started + CommandPeriod.extendedHandling - now)
    }

    private func setTimer(_ key: CommandKey, _ delay: Int64) {
        handlers[key]?.timer?.cancel()
        handlers[key]?.timer = after(delay) { endpoint in
            endpoint.perform(endpoint.received.handlerTimedOut(key, endpoint.clock))
        }
    }

    private func stopHandler(_ key: CommandKey) {
        guard let handler = handlers.removeValue(forKey: key) else { return }
        handler.timer?.cancel()
        handler.task?.cancel()
    }
}
