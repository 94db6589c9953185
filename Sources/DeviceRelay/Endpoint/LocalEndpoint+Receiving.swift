// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// What is done for the commands that came, one after the other.
struct ReceivedWork {
    var action: CommandTarget.Action
    /// The connection it was decided on.
    var attempt: Int
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
        for action in actions { receivedWork.append(ReceivedWork(action: action, attempt: channel.attempt)) }
        workOnReceived()
    }

    func workOnReceived() {
        guard storageTrouble.until == nil, receivedWork.begin() else { return }
        if spawn({ [weak self] in await self?.runReceivedWork() }) == nil { receivedWork.fail() }
    }

    /// What cannot be stored now, and all that follows from it, waits until it can: a handler's answer is not lost by a full disk.
    private func runReceivedWork() async {
        while let work = receivedWork.next() {
            do {
                try await perform(work)
            } catch {
                receivedWork.putBack(work)
                return storageFailed(error)
            }
        }
    }

    private func perform(_ work: ReceivedWork) async throws {
        let isCurrent = work.attempt == channel.attempt
        switch work.action {
        case .persist(let row, let highest, let reply):
            let content = arriving[row.command.key]
            let result = try sign(row, reply: reply)
            try await journal.write { try $0.persist(row, highest: highest, content: content, result: result) }
            if content != nil { arriving[row.command.key] = nil }
        case .remove(let key): try await journal.write { try $0.remove(key) }
        case .removeLane(let lane): try await journal.write { try $0.removeLane(lane) }
        case .sendReceived(let key): if isCurrent { say(.commandReceived(.init(sender: key.sender, id: key.id))) }
        case .sendResult(let key):
            guard isCurrent, let result = try await journal.write({ try $0.result(key) }) else { return }
            send(result, for: key)
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

    private func sign(_ row: CommandTarget.Row, reply: [UInt8]?) throws -> JournalTransaction.Result? {
        guard case .answered(let outcome) = row.state else { return nil }
        let receipt = CommandReceipt(for: row.command, outcome: outcome, reply: reply, time: relayTime)
        return JournalTransaction.Result(receipt: try Signed(receipt, key: identityKey).encoded, reply: reply)
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
        let descriptor = command.descriptor
        let isKnown = received.knows(descriptor)
        let check = isKnown ? .valid : check(command, message.sender)
        let actions = received.offered(descriptor, check: check, clock)
        if !isKnown, received.knows(descriptor), let record = message.sender?.record {
            arriving[descriptor.key] = JournalTransaction.ReceivedContent(blob: command.encoded, record: record.bytes)
        }
        perform(actions)
    }

    func cancelled(_ message: RelayMessage.CommandCancel) {
        perform(received.cancelled(CommandKey(sender: message.sender, id: message.id)))
    }

    private func check(_ command: SealedCommand, _ introduction: Introduction?) -> CommandCheck {
        guard let relayAccount, let introduction else { return .unverifiable }
        let header = command.header
        guard let peer = try? introduce(introduction, as: header.sender) else { return .unverifiable }
        for action in peer.actions { perform(action) }
        let recipient = SealedCommand.Recipient(account: relayAccount, relay: relay, endpoint: id)
        do throws(CommandError) {
            // Expiry is for the state machine, when it is the command's turn.
            try command.verify(for: recipient, from: peer.record, now: .min)
        } catch {
            return .forged(reason: "the command is not signed by its sender for this device")
        }
        guard let app = apps[header.targetApp]?.registration else { return .appUnknown }
        do {
            let body = try command.open(with: agreementKeys(for: header.keyID))
            return AccessPolicy.check(body, from: header.senderApp, isNew: peer.isNew, to: app)
        } catch let error as StorageError {
            // Of the command that says nothing. It is offered again on the next connection.
            storageFailed(error)
            return .unverifiable
        } catch {
            return .refused(.failed(reason: "the command cannot be opened; the sender has to learn this device's new key, and try again"))
        }
    }

    // MARK: Handlers

    private func handle(_ command: CommandDescriptor) async throws {
        let key = command.key
        let content = try await journal.write { try $0.receivedContent(key) }
        let sealed = content.flatMap { try? SealedCommand(decoding: $0.blob) }
        let keys = try sealed.map { try agreementKeys(for: $0.header.keyID) } ?? []
        if let instead = received.expiresBeforeHandling(key, clock) { return perform(instead) }
        let cancellation = RequestCancellation()
        handlers[key] = Handler(started: now, cancellation: cancellation)
        setTimer(key, CommandPeriod.handling)
        guard let content, let sealed, let sender = try? Signed<EndpointRecord>(verifying: content.record).payload,
            let body = try? sealed.open(with: keys)
        else { return end(key, .failed(reason: "the command cannot be opened any more")) }
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
        handlers[key]?.task = spawn { [weak self] in
            let extend: @Sendable () async -> Void = { [weak self] in await self?.handlerAskedForTime(key) }
            let (outcome, answer) = await CommandHandling.run(body, app, caller, cancellation, extend)
            await self?.handled(key, outcome, answer, sealed, senderKey)
        }
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
