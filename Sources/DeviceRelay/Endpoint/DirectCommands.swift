// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// Brings commands and their results over direct sessions, where the relay does not: if it is not connected, does not show the target as
/// available, or has not said within half a second that the target has the command. The relay gets each command, too.
///
/// The sender opens a connection to the service `commands` of each such target. Results come back on it.
final class DirectCommands {
    private typealias Messages = DirectCommandMessages

    private enum Life {
        case stopped
        case idle
        /// The journal is read for the targets of open commands. It is stale if a command was submitted meanwhile.
        case reviewing(isStale: Bool)
    }

    /// How long the relay has for a command before the direct way is tried, in milliseconds.
    private static let relayPatience: Int64 = 500
    /// The processes of a sender that are served at once.
    private static let maximumConnections = 8
    /// After `later`, in milliseconds.
    private static let laterPause: Int64 = 30_000
    /// How long a request may take.
    private static let patience = Duration.seconds(30)

    private let endpoint: EndpointContext
    private let control: any ControlSending
    private let sessions: SessionPool
    private let peers: Peers
    private let outbox: Outbox
    private let inbox: Inbox
    /// Whether a peer may be on this network.
    private let isNear: (EndpointID) -> Bool

    private var links = DirectLinks<AppServiceConnection>()
    /// The targets of commands for which the relay takes too long.
    private var overdue: Set<EndpointID> = []
    private var life = Life.stopped
    private var timer: (due: Int64, scheduled: Scheduled<Void>)?
    /// Results that targets have sent, until they are stored.
    private var arriving: [ResultKey: [OneShot<Bool>]] = [:]
    /// Offers of senders that are not answered yet.
    private var offers: [CommandKey: [Waiting]] = [:]
    /// The connections of senders: one of each of their processes.
    private var senders: [EndpointID: [AppServiceConnection]] = [:]

    private struct Waiting {
        let connection: AppServiceConnection
        let answer: OneShot<Messages.Offer.Response>
    }

    private struct ResultKey: Hashable {
        let id: CommandID
        let target: EndpointID
    }

    init(
        _ endpoint: EndpointContext,
        control: any ControlSending,
        sessions: SessionPool,
        peers: Peers,
        outbox: Outbox,
        inbox: Inbox,
        isNear: @escaping (EndpointID) -> Bool
    ) {
        (self.endpoint, self.control, self.sessions, self.peers) = (endpoint, control, sessions, peers)
        (self.outbox, self.inbox, self.isNear) = (outbox, inbox, isNear)
    }

    private var loop: EndpointLoop { endpoint.loop }

    // MARK: When

    func start() {
        if case .stopped = life { life = .idle }
        tick()
    }

    func stop() {
        life = .stopped
        timer?.scheduled.cancel()
        timer = nil
        for link in links.all { link.connection.close() }
        links.removeAll()
    }

    private func tick() {
        timer?.scheduled.cancel()
        timer = nil
        guard !isStopped else { return }
        review()
        for link in links.all { outbox.refresh(directlyTo: link.target) }
    }

    /// Looks for the targets that need a direct way: the relay has come or gone, a device has appeared, or time has passed.
    func review() {
        guard case .idle = life else { return }
        life = .reviewing(isStale: false)
        loop.spawn(self) { commands in
            let targets: Set<EndpointID>
            do {
                targets = try await commands.outbox.openTargets()
            } catch {
                // The storage may be busy.
                return commands.reviewed(nextAfter: DirectLinks<AppServiceConnection>.interval)
            }
            if case .reviewing(isStale: false) = commands.life { commands.closeUnneeded(targets) }
            for target in targets.sorted() { commands.consider(target) }
            // Without open commands there is nothing to look for.
            commands.reviewed(nextAfter: targets.map { commands.links.pause(of: $0, now: commands.loop.now) }.min())
        }
    }

    private func closeUnneeded(_ targets: Set<EndpointID>) {
        overdue.formIntersection(targets)
        for (target, connection) in links.all where !targets.contains(target) || !isNeeded(target) {
            links.remove(target)
            outbox.disconnected(directlyFrom: target)
            connection.close()
        }
    }

    private func reviewed(nextAfter delay: Int64?) {
        guard case .reviewing = life else { return }
        life = .idle
        if let delay { scheduleTick(after: delay) }
    }

    /// Looks again after a delay in milliseconds, unless it does so before.
    private func scheduleTick(after delay: Int64) {
        let due = loop.now + delay
        if let timer, timer.due <= due { return }
        timer?.scheduled.cancel()
        timer = (due, loop.after(delay) { [weak self] in self?.tick() })
    }

    private func scheduleTick(for target: EndpointID) { if !isStopped { scheduleTick(after: links.pause(of: target, now: loop.now)) } }

    private var isStopped: Bool { if case .stopped = life { true } else { false } }

    private func isNeeded(_ target: EndpointID) -> Bool {
        !control.isConnected || !peers.isAvailableAtRelay(target) || overdue.contains(target)
    }

    private func consider(_ target: EndpointID) {
        guard !isStopped, target != endpoint.id, isNeeded(target), peers.linkKeys[target] != nil else { return }
        // With the relay, only a device that is seen or whose address is known is dialled, and not before the relay has said who is there.
        guard !control.isConnected || peers.isEnumerated && isNear(target) else { return }
        guard let attempt = links.begin(target, now: loop.now) else { return }
        if loop.spawn(self, { await $0.open(target, attempt) }) == nil { links.remove(target) }
    }

    // MARK: The sender

    private func open(_ target: EndpointID, _ attempt: Int) async {
        let connection: AppServiceConnection
        do throws(AppServiceError) {
            connection = try await sessions.openDirectly(Messages.info, to: target, timeout: Self.patience)
        } catch {
            links.failed(target, attempt, now: loop.now)
            return scheduleTick(for: target)
        }
        guard !isStopped, links.opened(target, attempt, connection) else { return connection.close() }
        outbox.connected(directlyTo: target)
        let (loop, bound) = (loop, NIOLoopBound(Weak(self), eventLoop: loop.eventLoop))
        // Results come as requests, until either side closes the connection.
        try? await connection.respond { request in
            let result = try Messages.decode(Messages.Result.self, request.message)
            guard request.message["Type"]?.string == Messages.Result.type, let id = CommandID(result.id) else { throw Messages.invalid }
            let stored = await loop.run(bound) { $0.object?.arrived(id, result, from: target) }
            guard let isTaken = await stored?.wait() else {
                await loop.run(bound) { $0.object?.forget(stored, id, target) }
                throw AppServiceError(.cancelled)
            }
            guard isTaken else { throw Messages.invalid }
            return try ValueSetEncoder().encode(Messages.Result.Response())
        }
        // A new one may have taken its place.
        guard links.ended(target, connection, now: loop.now) else { return }
        outbox.disconnected(directlyFrom: target)
        if !isStopped { review() }
    }

    private func forget(_ stored: OneShot<Bool>?, _ id: CommandID, _ target: EndpointID) {
        let key = ResultKey(id: id, target: target)
        arriving[key]?.removeAll { $0 === stored }
        if arriving[key]?.isEmpty ?? false { arriving[key] = nil }
    }

    private func arrived(_ id: CommandID, _ result: Messages.Result, from target: EndpointID) -> OneShot<Bool> {
        let stored = OneShot<Bool>()
        arriving[ResultKey(id: id, target: target), default: []].append(stored)
        outbox.ended(id, .init(receipt: result.receipt, reply: result.reply), at: target)
        return stored
    }

    private func answered(_ command: SentCommand, _ response: Messages.Offer.Response) {
        let (id, target) = (command.command.id, command.command.lane.target)
        links.succeeded(target)
        switch response.state {
        case .received: outbox.receivedDirectly(id)
        case .answered: if let result = response.result { outbox.ended(id, result, at: target) }
        case .later: loop.after(Self.laterPause) { [weak self] in self?.outbox.retryDirectly(id) }
        }
    }

    // MARK: The target

    /// Serves the commands of a sender on a direct session.
    var service: AppService {
        let (loop, bound) = (loop, NIOLoopBound(Weak(self), eventLoop: loop.eventLoop))
        return AppService(Messages.info.name) { connection, caller in
            await loop.run(bound) { $0.object?.opened(connection, by: caller.endpoint) }
            defer { loop.eventLoop.execute { bound.value.object?.closed(connection, by: caller.endpoint) } }
            try await connection.respond { request in
                switch request.message["Type"]?.string {
                case Messages.Offer.type:
                    let offer = try Messages.decode(Messages.Offer.self, request.message)
                    let answer = await loop.run(bound) { $0.object?.offered(offer, by: caller.endpoint, on: connection) }
                    guard let response = await answer?.wait() else { throw Messages.invalid }
                    return try ValueSetEncoder().encode(response)
                case Messages.Settled.type:
                    guard let id = CommandID(try Messages.decode(Messages.Settled.self, request.message).id) else { throw Messages.invalid }
                    await loop.run(bound) { $0.object?.inbox.settledDirectly(CommandKey(sender: caller.endpoint, id: id)) }
                    return try ValueSetEncoder().encode(Messages.Settled.Response())
                default: throw Messages.invalid
                }
            }
        }
    }

    private func opened(_ connection: AppServiceConnection, by sender: EndpointID) {
        senders[sender, default: []].append(connection)
        if let oldest = senders[sender]?.first, (senders[sender]?.count ?? 0) > Self.maximumConnections { oldest.close() }
        inbox.connected(directlyTo: sender)
    }

    private func closed(_ connection: AppServiceConnection, by sender: EndpointID) {
        senders[sender]?.removeAll { $0 === connection }
        if senders[sender]?.isEmpty ?? false { senders[sender] = nil }
        offers = offers.compactMapValues { waiting in
            let left = waiting.filter { $0.connection !== connection }
            return left.isEmpty ? nil : left
        }
    }

    /// - Returns: `nil` if it is no command of the sender.
    private func offered(
        _ offer: Messages.Offer,
        by sender: EndpointID,
        on connection: AppServiceConnection
    ) -> OneShot<Messages.Offer.Response>? {
        // The inbox works later, so the answer comes after this.
        let key = inbox.offered(
            offer.command,
            by: sender,
            wasReceived: offer.isReceived,
            isCancelled: offer.isCancelled,
            time: offer.time
        )
        guard let key else { return nil }
        let answer = OneShot<Messages.Offer.Response>()
        offers[key, default: []].append(Waiting(connection: connection, answer: answer))
        return answer
    }

    /// - Returns: The connections on which an offer waited.
    @discardableResult private func answerOffers(of key: CommandKey, _ response: Messages.Offer.Response) -> [AppServiceConnection] {
        let waiting = offers.removeValue(forKey: key) ?? []
        for waiting in waiting { waiting.answer.settle(response) }
        return waiting.map(\.connection)
    }
}

extension DirectCommands: DirectSending {
    func offer(_ command: SentCommand, _ blob: [UInt8]) {
        let target = command.command.lane.target
        guard let connection = links[target] else { return }
        let offer = Messages.Offer(
            command: blob,
            isReceived: command.state == .accepted(.delivered),
            isCancelled: command.cancelRequested,
            time: loop.wallTime
        )
        loop.spawn(self) { commands in
            do throws(AppServiceError) {
                commands.answered(command, try await connection.call(offer, timeout: Self.patience))
            } catch {
                switch error.code {
                // The target answers, and not to this command.
                case .invalidMessage, .failure, .messageTooLarge: commands.answered(command, .init(state: .later))
                // Whether it arrived is not known. The next connection offers it again.
                default: connection.close()
                }
            }
        }
    }

    func accepted(_ id: CommandID, to target: EndpointID) {
        guard !isStopped, !overdue.contains(target), !links.isBusy(target), isNear(target) else { return }
        loop.after(Self.relayPatience) { [weak self] in
            guard let self, outbox.waitsForTarget(id) else { return }
            overdue.insert(target)
            consider(target)
        }
    }

    func submitted(to target: EndpointID) {
        if case .reviewing = life { life = .reviewing(isStale: true) }
        consider(target)
        // A way that rests, or leads to nothing, is tried again.
        scheduleTick(for: target)
    }

    func reset() { for link in links.all { link.connection.close() } }

    func settle(_ id: CommandID, at target: EndpointID) {
        if let waiting = arriving.removeValue(forKey: ResultKey(id: id, target: target)) {
            for stored in waiting { stored.settle(true) }
            return
        }
        guard let connection = links[target] else { return }
        loop.spawn(self) { _ in _ = try? await connection.call(Messages.Settled(id: "\(id)"), timeout: Self.patience) }
    }

    func refuse(_ id: CommandID, at target: EndpointID) {
        for stored in arriving.removeValue(forKey: ResultKey(id: id, target: target)) ?? [] { stored.settle(false) }
    }

    func received(_ key: CommandKey) { answerOffers(of: key, .init(state: .received)) }

    func postpone(_ key: CommandKey) { answerOffers(of: key, .init(state: .later)) }

    func send(_ result: JournalTransaction.Result, for key: CommandKey) {
        // All processes of the sender learn of it: one of them waits for it, and any of them may end.
        let answered = answerOffers(of: key, .init(state: .answered, receipt: result.receipt, reply: result.reply))
        let others = (senders[key.sender] ?? []).filter { other in !answered.contains { $0 === other } }
        let message = Messages.Result(id: "\(key.id)", receipt: result.receipt, reply: result.reply)
        for connection in others {
            loop.spawn(self) { commands in
                // Without an answer the next connection repeats it.
                guard (try? await connection.call(message, timeout: Self.patience)) != nil else { return }
                commands.inbox.settledDirectly(key)
            }
        }
    }
}
