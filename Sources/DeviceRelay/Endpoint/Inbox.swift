// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayStorage

/// The commands that this endpoint receives.
///
/// The path of a command: `offered` checks it. `work` then performs the machine's actions one after the other: it stores the command,
/// passes it to its app, and sends the result. `CommandHandlers` runs the handlers. If a write fails, it and all later actions wait until
/// the storage works again, so a full disk does not lose a handler's result.
final class Inbox {
    private let endpoint: EndpointContext
    private let link: any ControlSending
    private let clock: RelayClock
    private let storage: StorageGuard
    private let identity: OwnIdentity
    private let peers: Peers
    private let app: (String) -> RemoteSystemAppRegistration?
    private let handlers: CommandHandlers
    private let contents: InboxContents
    weak var direct: (any DirectSending)?

    private var machine: InboxMachine
    private var isWorking = false
    private var isFlushScheduled = false
    private var hasStarted = false
    private var held = HeldCommands()
    /// When to remove old settled commands next, by the steady clock.
    private var nextForgetting: Int64 = 0
    /// By how much the clocks of paired senders are ahead.
    private var senderClocks: [EndpointID: Int64] = [:]
    /// The launches of new endpoints.
    private var newcomerRate = LaunchRate()
    /// Those who wait for the end of the work.
    private var waitingForWork: [CheckedContinuation<Void, Never>] = []
    /// Called when work begins, and with `true` when all commands are handled and settled.
    var onIdle: (Bool) -> Void = { _ in }

    /// - Parameters:
    ///   - stored: The stored commands from the journal.
    ///   - app: Returns the hosted app with an id.
    init(
        _ endpoint: EndpointContext,
        stored: CommandTarget,
        link: any ControlSending,
        clock: RelayClock,
        storage: StorageGuard,
        identity: OwnIdentity,
        peers: Peers,
        app: @escaping (String) -> RemoteSystemAppRegistration?
    ) {
        self.endpoint = endpoint
        self.machine = InboxMachine(stored)
        self.link = link
        self.clock = clock
        self.storage = storage
        self.identity = identity
        self.peers = peers
        self.app = app
        self.handlers = CommandHandlers(endpoint.loop)
        self.contents = InboxContents(endpoint, clock: clock, identity: identity)
        handlers.onEvent = { [weak self] key, event in self?.take(event, of: key) }
    }

    private var loop: EndpointLoop { endpoint.loop }
    private var targetClock: TargetClock { TargetClock(own: loop.wallTime, relay: clock.time, senders: senderClocks) }
    private var logger: Logger { endpoint.logger }

    // MARK: Start and end

    /// Continues the stored commands. Only the host calls this, because client channels must not handle commands.
    func start() {
        guard !hasStarted else { return work() }
        hasStarted = true
        input { $0.start(targetClock) }
        forget()
    }

    func connected() { input { $0.connected() } }

    func disconnected() {
        // The relay offers the held commands again on the next connection, and the machine sends the results again.
        held = HeldCommands()
        input { $0.disconnected() }
    }

    /// Ignores all later results of handlers. After a restart their outcomes are indeterminate.
    func stop() { handlers.stop() }

    /// Called after all tasks have ended. Stores deferred writes; the relay repeats any that are lost.
    func end() async {
        let commit = machine.takeUnwritten()
        guard !commit.isEmpty else { return }
        try? await contents.store(commit)
    }

    // MARK: Messages of the relay

    func offered(_ message: RelayMessage.Command) {
        // A command that cannot be decoded has no id to answer.
        guard let command = try? SealedCommand(decoding: message.command.bytes) else {
            return logger.warning("the relay offered a command that cannot be read")
        }
        if held.holds(command.header.sender, isKnown: peers.isConfirmed(command.header.sender), isEnumerated: peers.isEnumerated) {
            if held.add(command.descriptor.key, message) { return }
            takeHeld()
        }
        take(command, message)
    }

    private func take(_ command: SealedCommand, _ message: RelayMessage.Command) {
        let descriptor = command.descriptor
        let isKnown = machine.knows(descriptor)
        let (check, body) = isKnown ? (.valid, nil) : check(command, introducedBy: message.sender)
        machine.offered(descriptor, check: check, wasReceived: message.wasReceived, targetClock)
        if !isKnown, machine.knows(descriptor), let record = message.sender?.record {
            contents.keep(.init(sealed: command, body: body, record: record.bytes), for: descriptor.key)
        }
        work()
    }

    /// A sender offers a command on a direct session, over which both have told each other their records.
    /// - Parameters:
    ///   - wasReceived: The sender knows that it was stored here.
    ///   - isCancelled: The sender has cancelled it.
    ///   - time: By the sender's clock. It counts where no relay has the time.
    /// - Returns: `nil` if this is no command of the sender.
    func offered(_ bytes: [UInt8], by peer: EndpointID, wasReceived: Bool, isCancelled: Bool, time: Int64) -> CommandKey? {
        guard let command = try? SealedCommand(decoding: bytes), command.header.sender == peer,
            let record = peers.signedRecord(of: peer)
        else { return nil }
        let descriptor = command.descriptor
        if endpoint.isAnonymous { senderClocks[peer] = time.saturatingAdding(-loop.wallTime) }
        let isKnown = machine.knows(descriptor)
        let (check, body): (CommandCheck, CommandBody?) =
            if isKnown {
                (.valid, nil)
            } else if peers.isUpToDate || isCancelled {
                self.check(command, from: record.payload, isNew: !peers.isTrusted(peer))
            } else {
                // The sender may have been revoked. The command waits for the relay.
                (.unverifiable, nil)
            }
        machine.offered(
            descriptor,
            check: check,
            wasReceived: wasReceived,
            isCancelled: isCancelled,
            on: .direct(peer),
            targetClock
        )
        if !isKnown, machine.knows(descriptor) {
            contents.keep(.init(sealed: command, body: body, record: record.encoded), for: descriptor.key)
        }
        work()
        return descriptor.key
    }

    /// A direct session with a sender is open.
    func connected(directlyTo sender: EndpointID) { input { $0.connected(directlyTo: sender) } }

    /// The sender has stored the result of its command.
    func settledDirectly(_ key: CommandKey) {
        contents.settled(key)
        input { $0.settled(key, isKept: keepsSettled(key.sender), on: .direct(key.sender)) }
        forget()
    }

    /// Whether a sender can offer its commands directly, too.
    private func keepsSettled(_ sender: EndpointID) -> Bool {
        endpoint.settings.nearby.mode != .off && peers.record(of: sender)?.linkKey != nil
    }

    /// Removes the settled commands that no path offers any more, at most once in 10 min.
    private func forget() {
        guard loop.now >= nextForgetting else { return }
        nextForgetting = loop.now + 600_000
        input { $0.removeForgotten(targetClock) }
    }

    /// Handles the held commands, because the enumeration is complete, or a command cannot wait any longer.
    func takeHeld() {
        for message in held.takeAll() {
            if let command = try? SealedCommand(decoding: message.command.bytes) { take(command, message) }
        }
    }

    func cancelled(_ message: RelayMessage.CommandCancel) {
        let key = CommandKey(sender: message.sender, id: message.id)
        if held.contains(key) { takeHeld() }
        input { $0.cancelled(key) }
    }

    func senderRemoved(_ sender: EndpointID) { input { $0.senderRemoved(sender) } }

    private func check(_ command: SealedCommand, introducedBy introduction: Introduction?) -> (CommandCheck, CommandBody?) {
        guard identity.account != nil, let introduction else { return (.unverifiable, nil) }
        let sender = command.header.sender
        // The command is answered, so that the relay can delete it from the mailbox. Not so if only the relay says that the sender is
        // revoked: it may list the sender again, and then the answer would not be true.
        guard !peers.isRevoked(sender) else { return (.forged(reason: "the sender was revoked on this device"), nil) }
        guard let peer = try? peers.introduce(introduction, as: sender) else { return (.unverifiable, nil) }
        return check(command, from: peer.record, isNew: peer.isNew)
    }

    private func check(_ command: SealedCommand, from record: EndpointRecord, isNew: Bool) -> (CommandCheck, CommandBody?) {
        guard let account = identity.account else { return (.unverifiable, nil) }
        let header = command.header
        let recipient = SealedCommand.Recipient(account: account, relay: endpoint.relay, endpoint: endpoint.id)
        do throws(CommandError) {
            // The state machine checks the expiry when the command is next in its lane.
            try command.verify(for: recipient, from: record, now: .min)
        } catch {
            return (.forged(reason: "the command is not signed by its sender for this device"), nil)
        }
        guard let app = app(header.targetApp) else { return (.appUnknown, nil) }
        do {
            let body = try command.open(with: identity.agreementKeys(for: header.keyID))
            let identity = peers.identity(ofApp: header.senderApp, at: header.sender)
            let check = AccessPolicy.check(body, from: header.sender, header.senderApp, of: identity, isNew: isNew, to: app)
            guard check == .valid, AccessPolicy.isBounded(body, isNew: isNew, to: app) else { return (check, body) }
            let perMinute = app.newCallerBounds.launchesPerMinute
            let isWithin = newcomerRate.admit(RemoteSystem.ID(record.systemID), isNew: true, perMinute: perMinute, at: .now)
            return (isWithin ? .valid : AccessPolicy.tooManyLaunches(perMinute: perMinute), body)
        } catch let error as StorageError {
            // A storage error is not a fault of the command. The relay offers it again on the next connection.
            storage.fail(error)
            return (.unverifiable, nil)
        } catch {
            let reason = "the command cannot be opened; the sender has to learn this device's new key, and try again"
            return (.refused(.failed(reason: reason)), nil)
        }
    }

    // MARK: Work

    private func input(_ body: (inout InboxMachine) -> Void) {
        body(&machine)
        work()
    }

    /// Continues the work, also after the storage works again.
    private func work() {
        onIdle(machine.isIdle)
        guard storage.isUsable, machine.hasWork, !isWorking else { return }
        isWorking = true
        if loop.spawn(self, { await $0.run() }) == nil { isWorking = false }
    }

    private func run() async {
        while let action = machine.next(now: loop.now, targetClock) {
            do {
                try await perform(action)
            } catch {
                machine.failed(action)
                storage.fail(error)
                break
            }
        }
        isWorking = false
        onIdle(machine.isIdle)
        scheduleFlush()
        let waiting = waitingForWork
        waitingForWork = []
        for continuation in waiting { continuation.resume() }
    }

    /// Waits until there is no more work, or the storage has failed.
    func finishWork() async {
        guard isWorking else { return }
        await withCheckedContinuation { waitingForWork.append($0) }
    }

    /// Stores deferred writes after their delay.
    private func scheduleFlush() {
        guard machine.hasUnwritten, !isFlushScheduled else { return }
        isFlushScheduled = true
        loop.after(WriteBehindBuffer<CommandKey, InboxMachine.Write>.delay) { [weak self] in
            guard let self else { return }
            isFlushScheduled = false
            if storage.isUsable { input { $0.storeDeferred() } }
            scheduleFlush()
        }
    }

    private func perform(_ action: InboxMachine.Action) async throws {
        switch action {
        case .commit(let commit):
            try await contents.store(commit)
            machine.committed()
        case .sendReceived(let key, .relay): link.say(.commandReceived(.init(sender: key.sender, id: key.id)))
        case .sendReceived(let key, .direct): direct?.received(key)
        case .postpone(let key): direct?.postpone(key)
        case .sendResult(let key, let unwritten, let path):
            if let unwritten {
                send(try contents.signed(unwritten), for: key, on: path)
            } else if let result = try await contents.storedResult(key) {
                send(result, for: key, on: path)
            }
        case .sendUnstoredResult(let command, let outcome, let highest, let path):
            let receipt = CommandReceipt(for: command, outcome: outcome, highest: highest, time: clock.time)
            send(.init(receipt: try Signed(receipt, key: endpoint.identityKey).encoded, reply: nil), for: command.key, on: path)
        case .handle(let command): try await handle(command)
        case .extendTime(let key): handlers.extendTime(key)
        case .tellCancelled(let key): handlers.cancel(key)
        case .stopHandler(let key): handlers.remove(key)
        case .retryLater(let delay): link.afterOnConnection(delay) { [weak self] in self?.input { $0.retry() } }
        case .disconnect(let exceeded):
            logger.warning("the relay offers more commands than the limit allows", metadata: ["limit": "\(exceeded)"])
            link.close(code: 1008, reason: "\(exceeded.limit.rawValue)")
        }
    }

    private func send(_ result: InboxContents.Result, for key: CommandKey, on path: CommandPath) {
        guard path == .relay else { return direct?.send(result, for: key) ?? () }
        link.request {
            let reply = result.reply.map { Blob<BlobKinds.Reply>($0) }
            return .commandResult(.init(ref: $0, sender: key.sender, id: key.id, receipt: Blob(result.receipt), reply: reply))
        } answer: { [self] answer in
            switch answer {
            case .settled, .ok:
                contents.settled(key)
                input { $0.settled(key, isKept: keepsSettled(key.sender), hadReply: result.reply != nil) }
                forget()
            // The relay does not know the command yet, or cannot store its end now. The result is sent again on the next connection, or
            // earlier if the account has no room for it now.
            case .failure(let failure):
                logger.info("a result was not settled", metadata: ["code": "\(failure.code)"])
                if failure.limit?.name == Limit.accountBytes.rawValue { input { $0.notSettled(key) } }
            case .connectionLost: break
            }
        }
    }

    // MARK: Handlers

    private func handle(_ command: CommandDescriptor) async throws {
        let key = command.key
        let found = try await contents.take(key)
        if peers.isRefused(key.sender) { return end(key, .declined) }
        guard let found, let body = found.body, let sender = peers.record(found.record, of: key.sender)
        else { return end(key, .failed(reason: "the command cannot be opened any more")) }
        let sealed = found.sealed
        guard let app = app(sealed.header.targetApp) else { return end(key, .unsupported) }
        let caller = AppServiceCaller(
            accountID: endpoint.account.id,
            deviceName: sender.name,
            systemID: RemoteSystem.ID(sender.systemID),
            endpoint: key.sender,
            appID: sealed.header.senderApp,
            isNew: !peers.isTrusted(key.sender)
        )
        // Uses the newest known key, because the sender may have replaced the key in the command's record.
        let senderKey = (peers.record(of: key.sender) ?? sender).agreementKey
        handlers.start(key, body, app, caller, sealed, senderKey, replyBytes: min(link.limits[.replyBytes], Limit.replyBytes.defaultValue))
    }

    private func take(_ event: CommandHandlers.Event, of key: CommandKey) {
        switch event {
        case .ended(let outcome, let reply): end(key, outcome, reply: reply)
        case .askedForTime: input { $0.handlerAskedForTime(key) }
        case .timedOut: input { $0.handlerTimedOut(key, targetClock) }
        }
    }

    private func end(_ key: CommandKey, _ outcome: CommandOutcome, reply: [UInt8]? = nil) {
        input { $0.handlerEnded(key, outcome, reply: reply, targetClock) }
    }
}
