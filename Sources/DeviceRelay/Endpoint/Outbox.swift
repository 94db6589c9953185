// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// The commands that this endpoint sends.
///
/// The path of a command: `submit` seals and stores it. `work` then performs the machine's actions one after the other: it sends the
/// command, stores its progress, reports it to the app, and acknowledges its end. The relay's `command.status` messages arrive through
/// `receive`, its answers to requests through the request's closure; both are inputs of the machine. If a write fails, its changes are lost as
/// in a crash, and the relay repeats them on the next connection.
final class Outbox {
    typealias State = CurrentValue<SentCommand.State>

    private let endpoint: EndpointContext
    private let link: any ControlSending
    private let clock: RelayClock
    private let storage: StorageGuard
    private let identity: OwnIdentity
    private let peers: Peers
    private let contents: OutboxContents
    weak var direct: (any DirectSending)?

    private var machine: OutboxMachine
    private var isWorking = false
    private var isFlushScheduled = false
    /// The deadline for which a timer runs.
    private var deadline: Int64?
    private var marks = OutboxMarks()
    /// The states that apps observe.
    private var states: [CommandID: State] = [:]

    init(
        _ endpoint: EndpointContext,
        link: any ControlSending,
        clock: RelayClock,
        storage: StorageGuard,
        identity: OwnIdentity,
        peers: Peers
    ) {
        self.endpoint = endpoint
        self.link = link
        self.clock = clock
        self.storage = storage
        self.identity = identity
        self.peers = peers
        self.contents = OutboxContents(endpoint, clock: clock)
        self.machine = OutboxMachine(hasRelay: !endpoint.isAnonymous)
    }

    private var journal: Journal { endpoint.journal }
    private var loop: EndpointLoop { endpoint.loop }

    // MARK: Requests of the app

    /// Seals and stores a command, which then proceeds independently of the caller.
    func submit(
        _ body: CommandBody,
        to target: ResolvedTarget,
        life: Duration,
        senderApp: String?,
        key: SubmissionKey?
    ) async throws(CommandFailure) -> (SentCommand, State) {
        guard let account = identity.account, let record = peers.signedRecord(of: target.endpoint) else {
            throw .target(.remoteSystemUnavailable)
        }
        let header = contents.header(body, to: target, record, account: account, life: life, senderApp: senderApp)
        let id = header.id
        let state = State(.prepared)
        states[id] = state
        let stored: (row: SentCommand, others: [CommandID], isNew: Bool)
        do {
            let isDirect = machine.isConnected(directlyTo: target.endpoint)
            stored = try await contents.insert(
                body,
                header,
                for: record,
                under: key,
                isConnected: machine.isConnected,
                isDirect: isDirect
            )
        } catch {
            states[id] = nil
            throw CommandFailure(storing: error)
        }
        guard stored.isNew else {
            states[id] = nil
            return (stored.row, self.state(of: stored.row))
        }
        do {
            machine.add(stored.row, behind: try await rows(of: stored.others))
            work()
        } catch {
            // The command is stored, and proceeds after the storage works again.
            storage.fail(error)
        }
        direct?.submitted(to: target.endpoint)
        return (stored.row, state)
    }

    /// The rows of a lane's commands, including those of other processes of this endpoint.
    private func rows(of ids: [CommandID]) async throws -> [SentCommand] {
        let unknown = ids.filter { machine[$0] == nil }
        var read: [SentCommand] = []
        if !unknown.isEmpty { read = try await journal.write { transaction in try unknown.compactMap { try transaction.sent($0) } } }
        return ids.compactMap { id in machine[id] ?? read.first { $0.command.id == id } }
    }

    /// One stored command; `nil` if there is none with this id.
    func command(_ id: CommandID) async throws -> (SentCommand, State)? {
        try await journal.write { try $0.sent(id) }.map { ($0, state(of: $0)) }
    }

    /// The command that an earlier submission with this key has stored.
    /// - Throws: `keyReused` if that submission had another request; `storage`.
    func submitted(_ key: SubmissionKey) async throws(CommandFailure) -> (SentCommand, State)? {
        let now = clock.time
        let row: SentCommand?
        do {
            row = try await journal.write { try $0.submitted(key, now: now) }
        } catch {
            throw CommandFailure(storing: error)
        }
        return row.map { ($0, state(of: $0)) }
    }

    /// The observed state of a stored command.
    private func state(of row: SentCommand) -> State {
        let state = states[row.command.id] ?? State(row.state)
        states[row.command.id] = state
        if row.isEnded { report(row) }
        return state
    }

    /// Requests a cancellation. Returns when the request is stored.
    func cancel(_ id: CommandID) async throws(CommandFailure) {
        let row: SentCommand?
        do {
            row = try await journal.write { try $0.sent(id) }
        } catch {
            throw .storage(error)
        }
        guard machine.adopt(row, id, isEnd: false) else { return }
        machine.cancel(id)
        let stored = await withCheckedContinuation { mark(.stored($0)) }
        if case .failure(let error) = stored { throw error as? CommandFailure ?? .storage(error) }
    }

    /// The stored commands: all open ones, and the latest ended ones.
    func commands() async throws -> [(SentCommand, State)] {
        try await withCheckedContinuation { mark(.list($0)) }.get()
    }

    /// The target's reply to a command that succeeded.
    func reply(to id: CommandID, _ final: CommandFinal) async throws -> ValueSet? {
        try await contents.reply(to: id, final)
    }

    // MARK: Messages of the relay, and of targets

    func connected() {
        machine.connected()
        work()
    }

    func disconnected() { machine.disconnected() }

    func receive(_ status: RelayMessage.CommandStatus) { mark(.status(status)) }

    /// Sends commands to a target on the direct session that is open.
    func connected(directlyTo target: EndpointID) {
        machine.connected(directlyTo: target)
        work()
    }

    func disconnected(directlyFrom target: EndpointID) { machine.disconnected(directlyFrom: target) }

    /// A target has stored a command.
    func receivedDirectly(_ id: CommandID) {
        machine.receivedDirectly(id)
        work()
    }

    /// The pause of a command for which its target had no room is over.
    func retryDirectly(_ id: CommandID) {
        machine.retryDirectly(id)
        work()
    }

    /// A target has sent the result of a command. `DirectSending.settle` follows once it is stored.
    func ended(_ id: CommandID, _ result: JournalTransaction.Result, at target: EndpointID) { mark(.result(id, result, from: target)) }

    /// Reads the commands that end without the relay: those that their targets may have got without it, or all if there is none.
    func start() async {
        let rows = (try? await journal.write { try $0.openCommands() }) ?? []
        for row in rows where row.isDirect || endpoint.isAnonymous { _ = machine.adopt(row, row.command.id, isEnd: false) }
        scheduleDeadline()
    }

    /// Reads the commands to a target again, because another process may have got an outcome.
    func refresh(directlyTo target: EndpointID) {
        guard !states.isEmpty else { return }
        machine.refresh(directlyTo: target)
        work()
    }

    /// Whether the relay has a command, and has not said that its target has it.
    func waitsForTarget(_ id: CommandID) -> Bool {
        if case .accepted(let progress)? = machine[id]?.state { progress < .delivered } else { false }
    }

    /// The targets of the open commands, including those of other processes.
    func openTargets() async throws -> Set<EndpointID> { try await journal.write { try $0.openTargets() } }

    /// Waits until all earlier changes are stored, or lost with a failed write.
    func finishWork() async { _ = await withCheckedContinuation { mark(.stored($0)) } }

    private func mark(_ work: OutboxMarks.Work) {
        machine.mark(marks.add(work))
        self.work()
    }

    // MARK: Work

    private func work() {
        guard machine.hasWork, !isWorking else { return }
        isWorking = true
        guard loop.spawn(self, { await $0.run() }) == nil else { return }
        isWorking = false
        marks.fail(CommandFailure.shutDown)
    }

    private func run() async {
        while let action = machine.next(now: loop.now) {
            do {
                try await perform(action)
            } catch {
                machine.failed()
                contents.storeFailed()
                marks.fail(error)
                direct?.reset()
                storage.fail(error)
                break
            }
        }
        isWorking = false
        scheduleFlush()
        scheduleDeadline()
    }

    /// Ends the commands that no relay ends.
    private func scheduleDeadline() {
        guard let next = machine.nextDeadline, deadline.map({ next < $0 }) ?? true else { return }
        deadline = next
        // The clock may be set meanwhile.
        loop.after(min(max(next - clock.time, 0), 3_600_000)) { [weak self] in
            guard let self else { return }
            deadline = nil
            machine.handleDeadlines(now: clock.time)
            work()
            scheduleDeadline()
        }
    }

    /// Stores deferred writes after their delay.
    private func scheduleFlush() {
        guard machine.hasNoted, !isFlushScheduled else { return }
        isFlushScheduled = true
        loop.after(WriteBehindBuffer<CommandID, SentCommand>.delay) { [weak self] in
            guard let self else { return }
            isFlushScheduled = false
            if storage.isUsable {
                machine.storeDeferred()
                work()
            }
            scheduleFlush()
        }
    }

    private func perform(_ action: OutboxMachine.Action) async throws {
        switch action {
        case .commit(let rows): machine.committed(superseded: try await contents.store(rows))
        case .load(let rows): try await load(rows)
        case .send(let id, let again): try await send(id, again: again)
        case .markDirect(let target, let rows):
            let connection = machine.connectionNumber(on: .direct(target))
            let (open, known) = try await contents.markDirect(to: target, storing: rows, watched: Array(states.keys))
            machine.marked(open, ended: known.filter(\.isEnded), directlyTo: target, for: connection)
        case .offer(let id):
            guard let row = machine[id], let blob = try await contents.offered(row.command) else { return }
            direct?.offer(row, blob)
        case .settle(let id, let target): direct?.settle(id, at: target)
        case .cancel(let id): cancelAtRelay(id)
        case .acknowledge(let id): link.say(.commandAcknowledge(.init(id: id)))
        case .signAnew(let id, let number): try await signAnew(id, above: number)
        case .retryLater(let id, let request, let delay):
            link.afterOnConnection(delay) { [weak self] in
                self?.machine.retry(id, request)
                self?.work()
            }
        case .report(let row): report(row)
        case .reject: endpoint.logger.warning("the relay sent an outcome without a valid proof; it is ignored")
        case .reached(let mark):
            switch marks.take(mark) {
            case .status(let status): try await take(status)
            case .result(let id, let result, let target): try await take(result, of: id, from: target)
            case .stored(let continuation): continuation.resume(returning: .success(()))
            case .list(let continuation):
                do {
                    continuation.resume(returning: .success(try await list()))
                } catch {
                    continuation.resume(returning: .failure(error))
                    throw error
                }
            case nil: break
            }
        }
    }

    private func load(_ rows: [SentCommand]) async throws {
        let connection = machine.connectionNumber
        let (open, known) = try await contents.load(storing: rows, watched: Array(states.keys))
        machine.loaded(open, ended: known.filter(\.isEnded), for: connection)
    }

    private func send(_ id: CommandID, again: Bool) async throws {
        guard let blob = try await contents.blob(of: id), let row = machine[id] else { return }
        let (command, isDirect, isReceived) = (row.command, row.isDirect, row.isReceivedDirectly)
        link.request {
            .commandSend(.init(ref: $0, command: Blob(blob), again: again, offered: isDirect, received: isReceived))
        } answer: { [self] answer in
            // An answer to earlier bytes says nothing about the bytes that were signed since.
            guard machine[id]?.command.digest == command.digest else { return }
            switch answer {
            case .ok: machine.accepted(id)
            case .failure(let failure):
                if failure.code == .clockSkew, let time = failure.time { clock.set(time) }
                if let highest = failure.highest { raise(command.lane, to: highest) }
                machine.refused(id, CommandRejection(failure), now: clock.time, retryAfter: failure.retryAfter?.count)
            case .settled, .connectionLost: return
            }
            work()
        }
    }

    /// The next connection repeats a cancellation, too.
    private func cancelAtRelay(_ id: CommandID) {
        link.request {
            .commandCancel(.init(ref: $0, id: id))
        } answer: { [self] answer in
            guard case .failure(let failure) = answer, failure.code == .unavailable || failure.code == .tooManyRequests else { return }
            machine.cancelRefused(id, retryAfter: failure.pause)
            work()
        }
    }

    /// The relay or a target names the lane's highest number. If this endpoint has not stored it, its stored state has gone back, or another
    /// machine uses a copy of it.
    private func raise(_ lane: CommandLane, to highest: UInt64) {
        let (logger, directory) = (endpoint.logger, endpoint.storage.directoryPath)
        journal.write {
            try $0.raiseLane(lane, to: highest)
        } completion: { wasBehind in
            guard case .success(true) = wasBehind else { return }
            logger.warning(
                "the numbers of this device's commands were behind: its data was restored from a copy, or is used on two machines",
                metadata: ["directory": "\(directory)"]
            )
        }
    }

    private func signAnew(_ id: CommandID, above number: UInt64?) async throws {
        guard let row = machine[id], let signed = try await contents.signAnew(id, above: number), machine[id]?.state == row.state
        else { return }
        contents.keep(signed)
        machine.signedAnew(signed.command)
    }

    private func take(_ message: RelayMessage.CommandStatus) async throws {
        let id = message.id
        if machine[id] == nil {
            let row = try await journal.write { try $0.sent(id) }
            guard machine.adopt(row, id, isEnd: message.isEnd) else { return }
        }
        switch message.status {
        case .waking(let wake): machine.progressed(id, .waking(wake))
        case .step(let state): if let progress = CommandProgress(state) { machine.progressed(id, progress) }
        case .attestedByRelay(let outcome):
            let isRevoked = machine[id].map { peers.isRevoked($0.command.lane.target) } ?? false
            machine.ended(id, CommandFinal(attestedByRelay: outcome), receiptIsValid: false, targetIsRevoked: isRevoked)
        case .attestedByTarget(let receipt, let reply):
            try await end(id, .init(receipt: receipt.bytes, reply: reply?.bytes), directly: false)
        }
    }

    /// A target's result that came directly.
    private func take(_ result: JournalTransaction.Result, of id: CommandID, from target: EndpointID) async throws {
        if machine[id] == nil {
            let row = try await journal.write { try $0.sent(id) }
            guard machine.adopt(row, id, endedAt: target) else { return }
        }
        if machine[id]?.command.lane.target == target { try await end(id, result, directly: true) }
        if machine[id]?.isEnded != true { direct?.refuse(id, at: target) }
    }

    private func end(_ id: CommandID, _ result: JournalTransaction.Result, directly isDirect: Bool) async throws {
        guard let row = machine[id], let target = try await record(of: row.command.lane.target, to: id) else {
            return endpoint.logger.warning("a receipt cannot be verified; it is ignored")
        }
        let final = CommandFinal(
            receipt: result.receipt,
            reply: result.reply,
            of: row.command,
            isSignedAgain: row.signings > 1,
            from: target
        )
        guard let final else { return }
        if let highest = final.highest { raise(row.command.lane, to: highest) }
        if final.attestedBy == .relay {
            endpoint.logger.warning("a receipt is not valid: the outcome of the command cannot be determined")
        }
        machine.ended(id, final, receiptIsValid: final.attestedBy == .target, directly: isDirect)
    }

    /// The record of a command's target. If the target is gone, it is the record that was stored with the command.
    private func record(of target: EndpointID, to id: CommandID) async throws -> EndpointRecord? {
        if let record = peers.record(of: target) { return record }
        return try await contents.targetRecord(of: id)
    }

    private func list() async throws -> [(SentCommand, State)] {
        try await journal.write { try $0.sentCommands() }.map { ($0, state(of: $0)) }
    }

    private func report(_ row: SentCommand) {
        if waitsForTarget(row.command.id) { direct?.accepted(row.command.id, to: row.command.lane.target) }
        guard let state = states[row.command.id] else { return }
        state.update { $0 = row.state }
        guard row.isEnded else { return }
        states[row.command.id] = nil
        contents.ended(row.command.id)
        state.finish()
    }

    // MARK: The end

    /// Called after all tasks have ended. Stores deferred writes; the relay repeats any that are lost.
    func end() async {
        marks.fail(CommandFailure.shutDown)
        for state in states.values { state.finish() }
        states = [:]
        let rows = machine.takeNoted()
        guard !rows.isEmpty else { return }
        try? await journal.write { transaction in
            for row in rows { try transaction.update(row) }
        }
    }
}
