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

    /// A connection to a target.
    private enum Link {
        case opening
        case open(AppServiceConnection)
        /// It could not be opened, or has ended. It is not tried again before this time, by the steady clock.
        case resting(until: Int64)
    }

    /// How long the relay has for a command before the direct way is tried, in milliseconds.
    static let relayPatience: Int64 = 500
    /// How often commands look for a direct way while they are not delivered, in milliseconds.
    static let interval: Int64 = 30_000
    /// After a direct way that could not be opened, in milliseconds.
    private static let rest: Int64 = 2_000
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

    private var links: [EndpointID: Link] = [:]
    /// The targets of commands for which the relay takes too long.
    private var overdue: Set<EndpointID> = []
    private var isReviewing = false
    private var timer: Scheduled<Void>?
    private var hasStarted = false
    /// Results that targets have sent, until they are stored.
    private var arriving: [ResultKey: [OneShot<Void>]] = [:]
    /// Offers of senders that are not answered yet.
    private var offers: [CommandKey: [OneShot<Messages.Offer.Response>]] = [:]
    /// The connections of senders; the last one has offered last.
    private var senders: [EndpointID: [AppServiceConnection]] = [:]

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
        hasStarted = true
        tick()
    }

    func stop() {
        hasStarted = false
        timer?.cancel()
        for case .open(let connection) in links.values { connection.close() }
        links = [:]
    }

    private func tick() {
        timer?.cancel()
        guard hasStarted else { return }
        review()
        inbox.removeForgotten()
        timer = loop.after(Self.interval) { [weak self] in self?.tick() }
    }

    /// Looks for the targets that need a direct way: the relay has come or gone, a device has appeared, or time has passed.
    func review() {
        guard hasStarted, !isReviewing else { return }
        isReviewing = true
        loop.spawn(self) { commands in
            let targets = (try? await commands.outbox.openTargets()) ?? []
            commands.isReviewing = false
            commands.overdue.formIntersection(targets)
            for (target, link) in commands.links {
                guard case .open(let connection) = link, !targets.contains(target) || !commands.isNeeded(target) else { continue }
                connection.close()
            }
            for target in targets.sorted() { commands.consider(target) }
        }
    }

    private func isResting(_ target: EndpointID) -> Bool { if case .resting? = links[target] { true } else { false } }

    private func isNeeded(_ target: EndpointID) -> Bool {
        !control.isConnected || !peers.isAvailableAtRelay(target) || overdue.contains(target)
    }

    private func consider(_ target: EndpointID) {
        guard hasStarted, target != endpoint.id, isNeeded(target), peers.linkKeys[target] != nil else { return }
        switch links[target] {
        case .opening, .open: return
        case .resting(let until) where until > loop.now: return
        case .resting, nil: break
        }
        links[target] = .opening
        if loop.spawn(self, { await $0.open(target) }) == nil { links[target] = nil }
    }

    // MARK: The sender

    private func open(_ target: EndpointID) async {
        let connection: AppServiceConnection
        do throws(AppServiceError) {
            connection = try await sessions.openDirectly(Messages.info, to: target, timeout: Self.patience)
        } catch {
            links[target] = .resting(until: loop.now + Self.rest)
            return
        }
        guard hasStarted else { return connection.close() }
        links[target] = .open(connection)
        outbox.connected(directlyTo: target)
        let (loop, bound) = (loop, NIOLoopBound(Weak(self), eventLoop: loop.eventLoop))
        // Results come as requests, until either side closes the connection.
        try? await connection.respond { request in
            let result = try Messages.decode(Messages.Result.self, request.message)
            guard request.message["Type"]?.string == Messages.Result.type, let id = CommandID(result.id) else { throw Messages.invalid }
            let stored = await loop.run(bound) { $0.object?.arrived(id, result, from: target) }
            guard await stored?.wait() != nil else { throw AppServiceError(.cancelled) }
            return try ValueSetEncoder().encode(Messages.Result.Response())
        }
        outbox.disconnected(directlyFrom: target)
        arriving = arriving.filter { $0.key.target != target }
        if case .open? = links[target] { links[target] = .resting(until: loop.now) }
        if hasStarted { review() }
    }

    private func arrived(_ id: CommandID, _ result: Messages.Result, from target: EndpointID) -> OneShot<Void> {
        let stored = OneShot<Void>()
        arriving[ResultKey(id: id, target: target), default: []].append(stored)
        outbox.ended(id, .init(receipt: result.receipt, reply: result.reply), at: target)
        return stored
    }

    private func answered(_ command: SentCommand, _ response: Messages.Offer.Response) {
        let (id, target) = (command.command.id, command.command.lane.target)
        switch response.state {
        case .received:
            overdue.remove(target)
            outbox.receivedDirectly(id)
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
        inbox.connected(directlyTo: sender)
    }

    private func closed(_ connection: AppServiceConnection, by sender: EndpointID) {
        senders[sender]?.removeAll { $0 === connection }
        guard senders[sender]?.isEmpty ?? false else { return }
        senders[sender] = nil
        offers = offers.filter { $0.key.sender != sender }
    }

    /// - Returns: `nil` if it is no command of the sender.
    private func offered(
        _ offer: Messages.Offer,
        by sender: EndpointID,
        on connection: AppServiceConnection
    ) -> OneShot<Messages.Offer.Response>? {
        if let index = senders[sender]?.firstIndex(where: { $0 === connection }), let last = senders[sender]?.remove(at: index) {
            senders[sender]?.append(last)
        }
        // The inbox works later, so the answer comes after this.
        let key = inbox.offered(offer.command, by: sender, wasReceived: offer.isReceived, isCancelled: offer.isCancelled)
        guard let key else { return nil }
        let answer = OneShot<Messages.Offer.Response>()
        offers[key, default: []].append(answer)
        return answer
    }

    /// - Returns: Whether any waited.
    @discardableResult private func answerOffers(of key: CommandKey, _ response: Messages.Offer.Response) -> Bool {
        guard let waiting = offers.removeValue(forKey: key) else { return false }
        for answer in waiting { answer.settle(response) }
        return true
    }
}

extension DirectCommands: DirectSending {
    func offer(_ command: SentCommand, _ blob: [UInt8]) {
        let target = command.command.lane.target
        guard case .open(let connection)? = links[target] else { return }
        let offer = Messages.Offer(
            command: blob,
            isReceived: command.state == .accepted(.delivered),
            isCancelled: command.cancelRequested
        )
        loop.spawn(self) { commands in
            do throws(AppServiceError) {
                commands.answered(command, try await connection.call(offer, timeout: Self.patience))
            } catch {
                // Whether it arrived is not known. The next connection offers it again.
                connection.close()
            }
        }
    }

    func accepted(_ id: CommandID, to target: EndpointID) {
        guard hasStarted, !overdue.contains(target), links[target] == nil || isResting(target), isNear(target) else { return }
        loop.after(Self.relayPatience) { [weak self] in
            guard let self, outbox.waitsForTarget(id) else { return }
            overdue.insert(target)
            consider(target)
        }
    }

    func submitted(to target: EndpointID) { consider(target) }

    func reset() { for case .open(let connection) in links.values { connection.close() } }

    func settle(_ id: CommandID, at target: EndpointID) {
        if let waiting = arriving.removeValue(forKey: ResultKey(id: id, target: target)) {
            for stored in waiting { stored.settle(()) }
            return
        }
        guard case .open(let connection)? = links[target] else { return }
        loop.spawn(self) { _ in _ = try? await connection.call(Messages.Settled(id: "\(id)"), timeout: Self.patience) }
    }

    func received(_ key: CommandKey) { answerOffers(of: key, .init(state: .received)) }

    func postpone(_ key: CommandKey) { answerOffers(of: key, .init(state: .later)) }

    func send(_ result: JournalTransaction.Result, for key: CommandKey) {
        if answerOffers(of: key, .init(state: .answered, receipt: result.receipt, reply: result.reply)) { return }
        guard let connection = senders[key.sender]?.last else { return }
        let message = Messages.Result(id: "\(key.id)", receipt: result.receipt, reply: result.reply)
        loop.spawn(self) { commands in
            // Without an answer the next connection repeats it.
            guard (try? await connection.call(message, timeout: Self.patience)) != nil else { return }
            commands.inbox.settledDirectly(key)
        }
    }
}
