// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What is done for the commands of this endpoint, one after the other.
enum SentWork {
    /// There is a new connection: begin with what is stored.
    case connected(attempt: Int)
    case step(SentCommands.Step, attempt: Int)
    /// The relay said how far a command is.
    case status(RelayMessage.CommandStatus)
    /// What was noted has waited long enough.
    case storeNoted
    /// Somebody waits until all before this is stored.
    case tell(CheckedContinuation<Result<Void, any Error>, Never>)
    /// Somebody wants all that are kept. Here nothing ends between reading how they are and watching them.
    case list(CheckedContinuation<Result<[RemoteCommand], any Error>, Never>)
}

// Commands that this endpoint sends.
extension LocalEndpoint {
    func connectedAsSender() {
        sent.connected()
        sentWork.append(.connected(attempt: channel.attempt))
        workOnSent()
    }

    private func perform(_ steps: [SentCommands.Step]) {
        for step in steps { sentWork.append(.step(step, attempt: channel.attempt)) }
        workOnSent()
    }

    func workOnSent() {
        guard sentWork.begin() else { return }
        if spawn({ await $0.runSentWork() }) == nil { dropSentWork(CommandTrouble.shutDown) }
    }

    private func dropSentWork(_ error: any Error, _ begun: ArraySlice<SentWork> = []) {
        for work in begun + sentWork.fail() {
            switch work {
            case .tell(let continuation): continuation.resume(returning: .failure(error))
            case .list(let continuation): continuation.resume(returning: .failure(error))
            case .connected, .step, .status, .storeNoted: break
            }
        }
    }

    private func runSentWork() async {
        while let batch = sentWork.next() {
            var left = batch[...]
            do {
                try await store(batch)
                while let work = left.first {
                    switch work {
                    case .connected(let attempt): try await connectedAsSender(attempt)
                    case .step(let step, let attempt): try await perform(step, attempt)
                    case .status(let status): try await take(status)
                    case .storeNoted: break
                    case .tell(let continuation): continuation.resume(returning: .success(()))
                    case .list(let continuation): continuation.resume(returning: .success(try await list()))
                    }
                    left.removeFirst()
                }
            } catch {
                dropSentWork(error, left)
                // What is stored counts; the relay tells the rest again.
                _ = noted.takeAll()
                resigned = [:]
                sent = SentCommands()
                return storageFailed(error)
            }
        }
    }

    /// Stores, in one commit, what some work asks for.
    private func store(_ batch: [SentWork]) async throws {
        var rows: [(row: SentCommand, content: JournalTransaction.SentContent?)] = []
        for work in batch {
            switch work {
            case .step(let step, _):
                switch step.action {
                case .persist(let row):
                    noted.remove(step.id)
                    rows.append((row, resigned.removeValue(forKey: step.id)))
                case .note(let row):
                    noted.keep(row, for: step.id, now: now)
                    linger()
                default: break
                }
            case .storeNoted:
                for row in noted.due(now: now) {
                    noted.remove(row.command.id)
                    rows.append((row, nil))
                }
            default: break
            }
        }
        let writes = rows
        guard !writes.isEmpty else { return }
        let ended = try await journal.write { transaction in
            try writes.compactMap { try transaction.update($0.row, $0.content) ? nil : try transaction.sent($0.row.command.id) }
        }
        // Another process has heard the end, and told the relay that it need not keep the command: what it says now is about nothing.
        for row in ended {
            sent.replace(row)
            report(row)
            perform(sent.answered(row.command.id))
            sent.remove(row.command.id)
        }
    }

    /// What is stored is the truth: other processes of this endpoint may have sent, or heard an end.
    private func connectedAsSender(_ attempt: Int) async throws {
        guard attempt == channel.attempt else { return }
        let (ids, rows) = (Array(sentStates.keys), noted.takeAll())
        let (open, known) = try await journal.write { transaction in
            for row in rows { try transaction.update(row) }
            return (try transaction.openCommands(), try ids.compactMap { try transaction.sent($0) })
        }
        for row in known where row.isEnded {
            report(row)
            sent.remove(row.command.id)
        }
        guard attempt == channel.attempt else { return }
        // Another process may have signed anew.
        blobs = RecentlyStored()
        perform(sent.begin(open))
    }

    private func perform(_ step: SentCommands.Step, _ attempt: Int) async throws {
        // A message is for the connection it was decided on; the next one makes up for it.
        let isCurrent = attempt == channel.attempt
        switch step.action {
        case .persist, .note: break
        case .send(let again): if isCurrent, sent[step.id]?.isEnded == false { try await send(step.id, again: again) }
        case .cancel: if isCurrent { request({ .commandCancel(.init(ref: $0, id: step.id)) }, answer: { _, _ in }) }
        case .acknowledge: if isCurrent { say(.commandAcknowledge(.init(id: step.id))) }
        case .signAnew: try await signAnew(step.id)
        case .retryLater: if isCurrent { retryLater(step.id) }
        case .answered: perform(sent.answered(step.id))
        case .report(let news):
            // Of what has ended since, the end is told when that is stored.
            guard let row = sent[step.id], row.isEnded == news.isEnd else { break }
            report(row)
            if row.isEnded { sent.remove(step.id) }
        case .reject:
            logger.warning("the relay told an outcome that is not proved; it is not believed")
        }
    }

    private func send(_ id: CommandID, again: Bool) async throws {
        var blob = blobs.take(id)
        if blob == nil { blob = try await journal.write { try $0.sentContent(id)?.blob } }
        guard let blob else { return }
        request {
            .commandSend(.init(ref: $0, command: Blob(blob), again: again))
        } answer: { endpoint, answer in
            switch answer {
            case .ok: endpoint.perform(endpoint.sent.input(id) { $0.accepted() })
            case .failure(let failure):
                if failure.code == .clockSkew, let time = failure.time { endpoint.setRelayTime(time) }
                endpoint.retryAfter[id] = failure.retryAfter?.count
                endpoint.perform(endpoint.sent.input(id) { $0.refused(CommandRefusal(failure)) })
            case .settled, .connectionLost: break
            }
        }
    }

    private func retryLater(_ id: CommandID) {
        let attempt = channel.attempt
        _ = after(retryAfter.removeValue(forKey: id) ?? 60_000) { endpoint in
            guard attempt == endpoint.channel.attempt else { return }
            endpoint.perform(endpoint.sent.input(id) { $0.connected() })
        }
    }

    /// The relay's clock and this one's are too far apart: the same command again, with the relay's time.
    private func signAnew(_ id: CommandID) async throws {
        guard let row = sent[id], let content = try await journal.write({ try $0.sentContent(id) }) else { return }
        let old = try SealedCommand(decoding: content.blob)
        let target = try Signed<EndpointRecord>(verifying: content.target)
        var header = old.header
        let life = header.expires - header.created
        header.created = relayTime
        header.expires = relayTime + life
        let body = try CommandBody(decoding: content.body, kind: header.kind, limits: Limits())
        let command = try SealedCommand(body, header: header, target: target.payload.agreementKey, key: identityKey)
        guard sent[id]?.state == row.state else { return }
        resigned[id] = JournalTransaction.SentContent(blob: command.encoded, body: content.body, target: content.target)
        perform(sent.signedAnew(command.descriptor))
    }

    // MARK: What the relay says

    private func take(_ message: RelayMessage.CommandStatus) async throws {
        let id = message.id
        if sent[id] == nil {
            // Perhaps another process's, which need not be there any more.
            guard let row = try await journal.write({ try $0.sent(id) }), !row.isEnded else {
                if message.isFinal { say(.commandAcknowledge(.init(id: id))) }
                return
            }
            sent.adopt(row)
        }
        switch message.status {
        case .step(let state):
            guard let progress = CommandProgress(state) else { return }
            perform(sent.input(id) { $0.progressed(progress) })
        case .attestedByRelay(let outcome):
            perform(sent.input(id) { $0.ended(CommandFinal(attestedByRelay: outcome), receiptIsValid: false) })
        case .attestedByTarget(let receipt, let reply):
            guard let command = sent[id]?.command, let target = try await record(of: command.lane.target, to: id) else {
                return logger.warning("a receipt cannot be checked; it is not believed")
            }
            let final = CommandFinal(receipt: receipt.bytes, reply: reply?.bytes, of: command, from: target)
            if final.attestedBy == .relay { logger.warning("a receipt does not hold: nobody can know how the command ended") }
            perform(sent.input(id) { $0.ended(final, receiptIsValid: final.attestedBy == .target) })
        }
    }

    /// The record of a command's target: the one that was stored with it, if the target is gone.
    private func record(of target: EndpointID, to id: CommandID) async throws -> EndpointRecord? {
        if let record = peers.record(of: target) { return record }
        guard let content = try await journal.write({ try $0.sentContent(id) }) else { return nil }
        return try? Signed<EndpointRecord>(verifying: content.target).payload
    }

    private func report(_ row: SentCommand) {
        guard let state = sentStates[row.command.id] else { return }
        state.update { $0 = row.state }
        guard row.isEnded else { return }
        sentStates[row.command.id] = nil
        _ = blobs.take(row.command.id)
        state.finish()
    }

    // MARK: What the app wants

    /// Stores a command; it goes on by itself from then on.
    func submit(
        _ body: CommandBody,
        to target: ResolvedTarget,
        life: Duration,
        senderApp: String? = nil
    ) async throws(CommandTrouble) -> RemoteCommand {
        guard !isShutDown else { throw .shutDown }
        guard let relayAccount, let record = peers.signedRecord(of: target.endpoint) else { throw .target(.remoteSystemUnavailable) }
        var random = SystemRandomNumberGenerator()
        let id = commandIDs.next(now: UInt64(clamping: max(0, relayTime)), using: &random)
        let created = relayTime
        let life = min(max(life.milliseconds, 1), CommandPeriod.longestLife)
        let header = CommandHeader(
            id: id,
            account: relayAccount,
            relay: relay,
            sender: self.id,
            target: target.endpoint,
            senderApp: callingApp(senderApp),
            targetApp: target.appID,
            keyID: record.payload.agreementKey.keyID,
            kind: body.kind,
            number: 1,
            created: created,
            expires: created + life
        )
        let (key, isConnected) = (identityKey, sent.isConnected)
        let state = Observed(SentCommand.State.prepared)
        sentStates[id] = state
        let stored: (row: SentCommand, blob: [UInt8], others: [CommandID])
        do {
            stored = try await journal.write { transaction in
                var header = header
                let others = try transaction.unansweredCommands(to: target.endpoint, appID: target.appID)
                header.number = try transaction.nextNumber(to: target.endpoint, appID: target.appID)
                let command = try SealedCommand(body, header: header, target: record.payload.agreementKey, key: key)
                let (row, _) = SentCommand.prepare(command.descriptor, isConnected: isConnected)
                let content = JournalTransaction.SentContent(
                    blob: command.encoded,
                    body: try body.encodedBytes(),
                    target: record.encoded
                )
                try transaction.insert(row, content)
                return (row, command.encoded, others)
            }
        } catch {
            sentStates[id] = nil
            throw CommandTrouble(storing: error)
        }
        blobs.keep(stored.blob, for: id, bytes: stored.blob.count)
        do {
            perform(sent.add(stored.row, behind: try await unknown(of: stored.others)))
        } catch {
            // It is stored, and goes on when that can be read.
            storageFailed(error)
        }
        return RemoteCommand(
            id: id,
            expiresAt: Date(timeIntervalSince1970: Double(header.expires) / 1_000),
            target: .init(endpoint: target.endpoint, appID: target.appID),
            state: state,
            endpoint: self
        )
    }

    /// Commands of other processes of this endpoint, as they are stored.
    private func unknown(of ids: [CommandID]) async throws -> [SentCommand] {
        let ids = ids.filter { sent[$0] == nil }
        guard !ids.isEmpty else { return [] }
        return try await journal.write { transaction in try ids.compactMap { try transaction.sent($0) } }
    }

    func cancel(_ id: CommandID) async throws(CommandTrouble) {
        let row: SentCommand?
        do {
            row = try await journal.write { try $0.sent(id) }
        } catch {
            throw .storage(error)
        }
        guard let row, !row.isEnded else { return }
        sent.adopt(row)
        perform(sent.input(id) { $0.cancel() })
        let stored = await withCheckedContinuation { continuation in
            sentWork.append(.tell(continuation))
            workOnSent()
        }
        if case .failure(let error) = stored { throw error as? CommandTrouble ?? .storage(error) }
    }

    /// The commands that are kept: those that have not ended, and the latest that have.
    func commands() async throws -> [RemoteCommand] {
        try await withCheckedContinuation { continuation in
            sentWork.append(.list(continuation))
            workOnSent()
        }.get()
    }

    private func list() async throws -> [RemoteCommand] {
        try await journal.write { try $0.sentCommands() }.map { row in
            let state = sentStates[row.command.id] ?? Observed(row.state)
            sentStates[row.command.id] = state
            if row.isEnded { report(row) }
            return RemoteCommand(
                id: row.command.id,
                expiresAt: Date(timeIntervalSince1970: Double(row.command.expires) / 1_000),
                target: .init(endpoint: row.command.lane.target, appID: row.command.lane.appID),
                state: state,
                endpoint: self
            )
        }
    }

    /// What the target answered to a command that succeeded.
    func reply(to id: CommandID, _ final: CommandFinal) async throws -> ValueSet? {
        guard let reply = final.reply, let content = try await journal.write({ try $0.sentContent(id) }) else { return nil }
        return try SealedReply(decoding: reply).open(SealedCommand(decoding: content.blob), with: storage.agreementKeys())
    }
}

extension CommandTrouble {
    fileprivate init(storing error: any Error) {
        switch error {
        case let exceeded as LimitExceeded where exceeded.limit == .mailboxCommands: self = .tooManyCommands(exceeded)
        case let error as CommandError:
            if case .limitExceeded(let exceeded) = error { self = .content(exceeded) } else { self = .content(error) }
        case is LimitExceeded, is ValueSetError: self = .content(error)
        default: self = .storage(error)
        }
    }
}

extension CommandProgress {
    fileprivate init?(_ state: RelayMessage.CommandStatus.State) {
        switch state {
        case .accepted: self = .accepted
        case .waking: self = .waking
        case .delivered: self = .delivered
        default: return nil
        }
    }
}

extension CommandRefusal {
    /// The relay's answer to a `command.send`.
    fileprivate init(_ failure: RelayMessage.Failure) {
        let reason: Reason =
            switch failure.code {
            case .idConflict: .idConflict
            case .clockSkew: .clockSkew
            case .numberPassed: .numberPassed
            case .expired: .expired
            case .livesTooLong: .livesTooLong
            case .targetUnknown: .targetUnknown
            case .mailboxFull, .commandTooLarge:
                failure.limit?.error.map { .limit($0) } ?? .other(code: failure.code.rawValue)
            default: .other(code: failure.code.rawValue)
            }
        self.init(reason, mayHaveRun: failure.mayHaveRun)
    }
}

extension RelayMessage.CommandStatus {
    fileprivate var isFinal: Bool { if case .step = status { false } else { true } }
}
