// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Commands, on the side of their senders.
extension AccountRelay {
    mutating func send(_ request: EndpointMessage.CommandSend, _ command: SealedCommand, on channel: AccountChannel) {
        let (descriptor, account, rules) = (command.descriptor, id, rules)
        let sleeps = self.host(of: descriptor.lane.target) == nil
        let host = beginOffer(of: descriptor)
        transact(on: channel, bytes: command.encoded.count) { store, now in
            let change = try Self.store(command, again: request.again, in: account, store, rules.admission, now: now, offersIt: host != nil)
            guard sleeps, let urgency = change.newUrgency else { return (change, Waking.none) }
            let waiting = WaitingCommands(urgency: urgency, expires: descriptor.expires)
            return (change, try store.wake(descriptor.lane.target, of: account, for: waiting, rules, at: now))
        } then: { (relay, result: Result<(CommandChange, Waking), any Error>) in
            switch result {
            case .success((let change, let waking)):
                relay.perform(change, request: (channel.id, request.ref), target: host)
                relay.perform(waking, for: descriptor)
                relay.endOffer(of: descriptor, to: host, isMade: change.isOffered)
                relay.stored(change)
            case .failure(let error):
                relay.endOffer(of: descriptor, to: host, isMade: false)
                var failure = Rejection(error).failure(request.ref)
                // The write may have reached the disk although the store reported an error.
                failure.mayHaveRun = true
                relay.send(.failure(failure), to: channel.id)
                if let host = relay.host(of: descriptor.lane.target) { relay.offerNext(on: host.id) }
            }
        }
    }

    /// Wakes the target of a new command.
    private mutating func perform(_ waking: Waking, for command: CommandDescriptor) {
        switch waking {
        case .wake(let request): wake(request)
        case .outstanding(let wake) where host(of: command.lane.target) == nil: tell(command.lane.sender, .waking(wake), of: command.id)
        case .outstanding, .none, .suppressed: break
        }
    }

    /// The host channel to which a command can be offered in the transaction that stores it, if any. The command must not overtake
    /// earlier ones that are stored first and offered after that.
    private mutating func beginOffer(of command: CommandDescriptor) -> ChannelID? {
        let target = command.lane.target
        if storing[target] == nil, let host = host(of: target), change(host.id, { $0.delivery?.begin(command) }) == true {
            return host.id
        }
        storing[target, default: 0] += 1
        return nil
    }

    /// - Parameter host: the channel whose window had room.
    private mutating func endOffer(of command: CommandDescriptor, to host: ChannelID?, isMade: Bool) {
        guard let host else { return endStoring(for: command.lane.target) }
        if !isMade { answered(command, on: host) }
    }

    private mutating func endStoring(for target: EndpointID) {
        guard let count = storing[target] else { return }
        storing[target] = count > 1 ? count - 1 : nil
    }

    private mutating func stored(_ change: CommandChange) {
        guard let host = host(of: change.command.lane.target) else { return }
        // This applies also to a known command: the answer to its first commit may have failed. A command that is already offered stays
        // offered.
        guard change.state == .accepted, !change.isRefused, !change.isOffered else { return offerNext(on: host.id) }
        self.change(host.id) { $0.delivery?.add(change.command) }
        offerNext(on: host.id)
    }

    private static func store(
        _ command: SealedCommand,
        again: Bool,
        in account: AccountID,
        _ store: any AccountTransaction,
        _ admission: CommandAdmission,
        now: Int64,
        offersIt: Bool
    ) throws -> CommandChange {
        let (descriptor, lane) = (command.descriptor, command.header.lane)
        let key = StoredCommandKey(account: account, command: descriptor.key)
        // The sender may have been removed since its hello.
        let sender = try store.member(lane.sender, of: account)
        let target = try store.endpoint(lane.target, of: account)
        let isRevoked = try target == nil && store.global.revocation(of: lane.target)?.account == account
        let highestNumber = try store.highestNumber(in: lane, account: account)
        let mailbox = try store.mailboxUse(of: lane.target, account: account)
        let share = try mailboxShare(of: sender, with: target, store)
        let outcomes = try store.outcomesUse(of: lane.sender, account: account)
        let stored = try store.storedBytes(of: account)
        let admitted = Result { () throws(CommandRejection) in
            let inDoubt = try admission.check(
                descriptor,
                again: again,
                now: now,
                targetIsKnown: target != nil,
                targetIsRevoked: isRevoked,
                highestNumber: highestNumber,
                mailbox: mailbox,
                share: share,
                repliesWaiting: outcomes
            )
            let requested = stored + AccountUse.overhead + descriptor.size
            try admission.limits.check(.accountBytes, requested) { CommandRejection(.limit($0), mayHaveRun: inDoubt) }
            return inDoubt
        }
        if case .success(let inDoubt) = admitted {
            var (row, actions) = MailboxCommand.store(descriptor, inDoubt: inDoubt)
            if offersIt { actions += row.offer(now: now) }
            // One write adds the row with its offer. Nearly all commands are new, so the insertion itself detects the few that are not.
            let urgency = urgency(of: command.header, from: sender, to: target)
            // The earlier bytes of a command that its sender has signed again with a higher number have no use any more.
            let isReplaced = try descriptor.firstNumber != nil && store.command(key).map { descriptor.replaces($0.command) } ?? false
            if isReplaced { try store.removeCommand(key) }
            if try store.add(row, urgency: urgency, blob: command.encoded, account: account) {
                actions.removeAll { if case .persist = $0 { true } else { false } }
                var change = try store.perform(actions, of: row, account: account)
                // An offer of the new bytes takes the place of the earlier one.
                if isReplaced, !offersIt { change.effects.insert(.answered, at: 0) }
                change.newUrgency = urgency
                return change
            }
        }
        // Identical bytes get the same answer, even if admission would now decide differently.
        let rejection = if case .failure(let rejection) = admitted { rejection } else { nil as CommandRejection? }
        if let known = try store.change(key, { $0.sentAgain(descriptor, refusedFor: rejection) }) { return known }
        guard let rejection else { throw Rejection(.internalError, "the stored command cannot be found") }
        return CommandChange(command: descriptor, state: .accepted, effects: [.refuse(rejection)])
    }

    /// The class of the wakes for a command. For a launch, someone waits. A sender that is new to the target shows no alert there.
    private static func urgency(of header: CommandHeader, from sender: EndpointRow, to target: EndpointRow?) -> WakePayload.Urgency {
        guard header.kind == .launch, let target, !sender.isNew(to: target) else { return .background }
        return .urgent
    }

    /// The part of a target's mailbox that counts for a sender. Senders that are new to the target share one part; any other sender counts
    /// alone.
    private static func mailboxShare(
        of sender: EndpointRow,
        with target: EndpointRow?,
        _ store: any AccountTransaction
    ) throws -> MailboxUse {
        guard let target else { return MailboxUse() }
        let shares = try store.mailboxShares(of: target.id, account: sender.account)
        guard sender.isNew(to: target) else { return shares[sender.id] ?? MailboxUse() }
        var sum = MailboxUse()
        for (id, share) in shares {
            // Commands of a revoked sender count too.
            if let row = try store.endpoint(id, of: sender.account), !row.isNew(to: target) { continue }
            sum.commands += share.commands
            sum.bytes += share.bytes
        }
        return sum
    }

    mutating func cancel(_ request: EndpointMessage.CommandCancel, on channel: AccountChannel) {
        let key = StoredCommandKey(account: id, command: CommandKey(sender: channel.endpoint, id: request.id))
        transact(on: channel) { store, now in
            guard let change = try store.change(key, { $0.cancel(now: now) }) else {
                throw Rejection(.notFound, "there is no such command of this endpoint")
            }
            return change
        } then: { relay, result in
            switch result {
            case .success(let change):
                relay.send(.ok(.init(ref: request.ref, result: .init(state: change.state))), to: channel.id)
                relay.perform(change)
            case .failure(let error): relay.fail(request.ref, error, on: channel.id)
            }
        }
    }

    mutating func acknowledge(_ statement: EndpointMessage.CommandAcknowledge, on channel: AccountChannel) {
        let key = StoredCommandKey(account: id, command: CommandKey(sender: channel.endpoint, id: statement.id))
        transact(on: channel) { store, _ in
            try store.change(key) { $0.acknowledged() }
        } then: { _, _ in
            // If the write fails, the outcome is sent again on the sender's next channel.
        }
    }

    /// How many outcomes are on their way to a channel. A sender may have a full mailbox of them, and may read slowly.
    static func outcomesAtOnce(_ limits: Limits) -> Int { max(1, min(16, (4 << 20) / limits[.replyBytes])) }

    /// Sends an outcome that a sender may have missed, and the next one when it has left. Each has its own transaction: all replies together
    /// may be large, and other transactions would wait.
    mutating func sendNextOutcome(to channel: ChannelID) {
        guard let command = change(channel, { $0.outcomes.popFirst() }) ?? nil else { return }
        let key = StoredCommandKey(account: id, command: command)
        transact { store, _ in
            try store.change(key) { $0.senderConnected() }
        } then: { relay, result in
            guard case .success(let change) = result else { return relay.reopen(channel) }
            for case .final(let final) in change?.effects ?? [] where relay.channels[channel] != nil {
                return relay.perform(.sendOutcome(.commandStatus(.init(id: key.command.id, status: final.message)), to: channel))
            }
            // The sender has acknowledged the outcome meanwhile.
            relay.sendNextOutcome(to: channel)
        }
    }
}
