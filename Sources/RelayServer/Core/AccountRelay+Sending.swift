// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Commands, on the side of their senders.
extension AccountRelay {
    mutating func send(_ request: EndpointMessage.CommandSend, _ command: SealedCommand, on channel: AccountChannel) {
        let host = channels.host(of: command.header.target)?.id
        let offered = mailboxes.begin(command.descriptor, for: host)
        transact(.send(command, request.history, request.ref, channel, host: offered, sleeps: host == nil))
    }

    /// - Parameter host: the channel to which the command was to be offered.
    mutating func sent(
        _ command: CommandDescriptor,
        _ ref: RequestRef,
        on channel: AccountChannel,
        host: ChannelID?,
        _ result: Result<(change: CommandChange, wake: WakeDecision), any Error>
    ) {
        switch result {
        case .success(let (change, wake)):
            perform(change, request: (channel.id, ref), target: host)
            perform(wake, for: command)
            endOffer(of: command, to: host, isMade: change.isOffered)
            stored(change)
        case .failure(let error):
            endOffer(of: command, to: host, isMade: false)
            var failure = Rejection(error).failure(ref)
            // The write may have reached the disk although the store reported an error.
            failure.mayHaveRun = true
            send(.failure(failure), to: channel.id)
            if let host = channels.host(of: command.lane.target) { offerNext(on: host.id) }
        }
    }

    /// Wakes the target of a new command.
    private mutating func perform(_ decision: WakeDecision, for command: CommandDescriptor) {
        switch decision {
        case .wake(let request): wake(request)
        case .outstanding(let wake) where channels.host(of: command.lane.target) == nil:
            tell(command.lane.sender, .waking(wake), of: command.id)
        case .outstanding, .none, .suppressed: break
        }
    }

    /// - Parameter host: the channel whose window had room.
    private mutating func endOffer(of command: CommandDescriptor, to host: ChannelID?, isMade: Bool) {
        guard let host else { return mailboxes.endStoring(for: command.lane.target) }
        if !isMade { answered(command, on: host) }
    }

    private mutating func stored(_ change: CommandChange) {
        guard let host = channels.host(of: change.command.lane.target) else { return }
        // This applies also to a known command: the answer to its first commit may have failed. A command that is already offered stays
        // offered.
        if change.state == .accepted, !change.isRefused, !change.isOffered { mailboxes.add(change.command, to: host.id) }
        offerNext(on: host.id)
    }

    mutating func cancelled(_ ref: RequestRef, on channel: AccountChannel, _ result: Result<CommandChange, any Error>) {
        switch result {
        case .success(let change):
            send(.ok(.init(ref: ref, result: .init(state: change.state))), to: channel.id)
            perform(change)
        case .failure(let error): fail(ref, error, on: channel.id)
        }
    }

    /// Sends an outcome that a sender may have missed, and the next one when it has left. Each has its own transaction: all replies together
    /// may be large, and other transactions would wait.
    mutating func sendNextOutcome(to channel: ChannelID) {
        if let command = mailboxes.nextOutcome(for: channel) {
            transact(.readOutcome(StoredCommandKey(account: id, command: command), channel))
        }
    }

    mutating func readOutcome(of command: CommandKey, for channel: ChannelID, _ result: Result<CommandChange?, any Error>) {
        guard case .success(let change) = result else { return reopen(channel) }
        for case .final(let final) in change?.effects ?? [] where channels.contains(channel) {
            return perform(.sendOutcome(.commandStatus(.init(id: command.id, status: final.message)), to: channel))
        }
        // The sender has acknowledged the outcome meanwhile.
        sendNextOutcome(to: channel)
    }
}

extension AccountTransaction {
    /// Stores a command, and decides on a wake.
    /// - Parameters:
    ///   - isOffered: whether it is offered in this transaction.
    ///   - sleeps: whether its target has no host channel.
    func send(
        _ command: SealedCommand,
        _ history: CommandHistory,
        isOffered: Bool,
        sleeps: Bool,
        in account: AccountID,
        _ rules: RelayRules,
        at now: Int64
    ) throws -> (change: CommandChange, wake: WakeDecision) {
        let admission = rules.admission(try quotas(of: account))
        let change = try store(command, history, in: account, admission, now: now, offersIt: isOffered)
        guard sleeps, let urgency = change.newUrgency else { return (change, .none) }
        let waiting = WaitingCommands(urgency: urgency, expires: command.header.expires)
        return (change, try wake(command.header.target, of: account, for: waiting, rules, at: now))
    }

    private func store(
        _ command: SealedCommand,
        _ history: CommandHistory,
        in account: AccountID,
        _ admission: CommandAdmission,
        now: Int64,
        offersIt: Bool
    ) throws -> CommandChange {
        let (descriptor, lane) = (command.descriptor, command.header.lane)
        let key = StoredCommandKey(account: account, command: descriptor.key)
        // The sender may have been removed since its hello.
        let sender = try member(lane.sender, of: account)
        let target = try endpoint(lane.target, of: account)
        let isRevoked = try target == nil && global.revocation(of: lane.target)?.account == account
        let highestNumber = try highestNumber(in: lane, account: account)
        let mailbox = try mailboxUse(of: lane.target, account: account)
        let share = try mailboxShare(of: sender, with: target)
        let outcomes = try outcomesUse(of: lane.sender, account: account)
        let stored = try storedBytes(of: account)
        let admitted = Result { () throws(CommandRejection) in
            let inDoubt = try admission.check(
                descriptor,
                again: history != .new,
                offered: history.isOffered,
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
            var (row, actions) = MailboxCommand.store(descriptor, inDoubt: inDoubt, isReceived: history == .received)
            if offersIt { actions += row.offer(now: now) }
            // One write adds the row with its offer. Nearly all commands that are sent for the first time are new, so the insertion itself
            // detects the few that are not.
            let urgency = command.header.urgency(from: sender, to: target)
            // The earlier bytes of a command that its sender has signed again with a higher number have no use any more, nor has an end that
            // the relay could not know.
            let known = descriptor.firstNumber != nil || history != .new ? try self.command(key) : nil
            let isReplaced = known.map { descriptor.replaces($0.command) || history.isOffered && $0.isReopened(by: descriptor) } ?? false
            if isReplaced { try removeCommand(key) }
            if known == nil || isReplaced, try add(row, urgency: urgency, blob: command.encoded, account: account) {
                actions.removeAll { if case .persist = $0 { true } else { false } }
                var change = try perform(actions, of: row, account: account)
                // An offer of the new bytes takes the place of the earlier one.
                if isReplaced, !offersIt { change.effects.insert(.answered, at: 0) }
                change.newUrgency = urgency
                return change
            }
        }
        // Identical bytes get the same answer, even if admission would now decide differently.
        let rejection = if case .failure(let rejection) = admitted { rejection } else { nil as CommandRejection? }
        let known = try change(key) { row in
            let elsewhere = history.isOffered ? row.offeredElsewhere(descriptor, isReceived: history == .received) : []
            return elsewhere + row.sentAgain(descriptor, refusedFor: rejection)
        }
        if let known { return known }
        guard let rejection else { throw Rejection(.internalError, "the stored command cannot be found") }
        return CommandChange(command: descriptor, state: .accepted, effects: [.refuse(rejection)])
    }

    /// The part of a target's mailbox that counts for a sender. Senders that are new to the target share one part; any other sender counts
    /// alone.
    private func mailboxShare(of sender: EndpointRow, with target: EndpointRow?) throws -> MailboxUse {
        guard let target else { return MailboxUse() }
        let shares = try mailboxShares(of: target.id, account: sender.account)
        guard sender.isNew(to: target) else { return shares[sender.id] ?? MailboxUse() }
        var sum = MailboxUse()
        for (id, share) in shares {
            // Commands of a revoked sender count too.
            if let row = try endpoint(id, of: sender.account), !row.isNew(to: target) { continue }
            sum.commands += share.commands
            sum.bytes += share.bytes
        }
        return sum
    }

    func cancel(_ command: CommandID, on channel: AccountChannel, at now: Int64) throws -> CommandChange {
        let key = StoredCommandKey(account: channel.account, command: CommandKey(sender: channel.endpoint, id: command))
        guard let change = try change(key, { $0.cancel(now: now) }) else {
            throw Rejection(.notFound, "there is no such command of this endpoint")
        }
        return change
    }
}

extension CommandHeader {
    /// The class of the wakes for the command. For a launch, someone waits. A sender that is new to the target shows no alert there.
    fileprivate func urgency(from sender: EndpointRow, to target: EndpointRow?) -> WakePayload.Urgency {
        guard kind == .launch, let target, !sender.isNew(to: target) else { return .background }
        return .urgent
    }
}
