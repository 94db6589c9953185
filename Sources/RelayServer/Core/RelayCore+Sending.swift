// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Commands, for their senders.
extension RelayCore {
    func send(_ request: EndpointMessage.CommandSend, on channel: Channel) {
        guard let admission = change({ $0.admission }) else { return }
        let command: SealedCommand
        do throws(CommandError) {
            command = try SealedCommand(decoding: request.command.bytes, limits: limits)
            let recipient = SealedCommand.Recipient(account: channel.account.rawValue, relay: relay, endpoint: command.header.target)
            // Whether its signature holds is for the target to find out. Expiry is judged after the lookup: the same bytes get the same
            // answer.
            try command.check(for: recipient, from: channel.endpoint)
        } catch {
            var failure = Refusal(error).failure(request.ref)
            failure.mayHaveRun = request.again
            return change { $0.send(.failure(failure), to: channel.id) }
        }
        let (descriptor, now) = (command.descriptor, now)
        // With the state at hand, so that what is stored keeps the order in which it is decided here.
        change { state in
            let host = state.beginOffer(of: descriptor, in: channel.account)
            transact(on: channel, bytes: command.encoded.count) { store in
                try Self.store(
                    command,
                    again: request.again,
                    in: channel.account,
                    store,
                    admission,
                    now: now().count,
                    offersIt: host != nil
                )
            } then: { [self] state, result in
                switch result {
                case .success(let change):
                    perform(change, in: channel.account, &state, request: (channel.id, request.ref), target: host)
                    endOffer(of: descriptor, to: host, isMade: change.isOffered, &state)
                    stored(change, in: channel.account, &state)
                case .failure(let error):
                    endOffer(of: descriptor, to: host, isMade: false, &state)
                    var failure = Refusal(error).failure(request.ref)
                    // The write may have reached the disk all the same.
                    failure.mayHaveRun = true
                    state.send(.failure(failure), to: channel.id)
                }
            }
        }
    }

    private func stored(_ change: CommandChange, in account: AccountID, _ state: inout State) {
        if let host = state.host(of: change.command.lane.target, in: account) {
            // Also one that is not new: its first commit may have failed to be told. What is offered already stays so.
            guard change.state == .accepted, !change.isRefused, !change.isOffered else { return }
            state.deliveries[host.id]?.add(change.command)
            offerNext(on: host.id, &state)
        }
    }

    /// - Parameter host: The channel for which there was room.
    private func endOffer(of command: CommandDescriptor, to host: ChannelID?, isMade: Bool, _ state: inout State) {
        guard let host else { return state.endStoring(for: command.lane.target) }
        guard !isMade else { return }
        state.deliveries[host]?.answered(command)
        offerNext(on: host, &state)
    }

    private static func store(
        _ command: SealedCommand,
        again: Bool,
        in account: AccountID,
        _ store: any StoreTransaction,
        _ admission: CommandAdmission,
        now: Int64,
        offersIt: Bool
    ) throws -> CommandChange {
        let (descriptor, lane) = (command.descriptor, command.header.lane)
        let key = StoredCommandKey(account: account, command: descriptor.key)
        // It may have been removed since it said hello.
        let sender = try store.endpoint(lane.sender, of: account)
        let target = try store.endpoint(lane.target)
        let highestNumber = try store.highestNumber(in: lane, account: account)
        let mailbox = try store.mailboxUse(of: lane.target, account: account)
        let share = try mailboxShare(of: sender, with: target, store)
        let outcomes = try store.outcomesUse(of: lane.sender, account: account)
        let stored = try store.storedBytes(of: account)
        let admitted = Result { () throws(CommandRefusal) in
            let inDoubt = try admission.check(
                descriptor,
                again: again,
                now: now,
                targetIsKnown: target?.account == account,
                highestNumber: highestNumber,
                mailbox: mailbox,
                share: share,
                repliesWaiting: outcomes
            )
            let requested = stored + AccountUse.overhead + descriptor.size
            try admission.limits.check(.accountBytes, requested) { CommandRefusal(.limit($0), mayHaveRun: inDoubt) }
            return inDoubt
        }
        if case .success(let inDoubt) = admitted {
            var (row, actions) = MailboxCommand.store(descriptor, inDoubt: inDoubt)
            if offersIt { actions += row.offer(now: now) }
            // One write for both. Nearly all are new, so this is what finds out which is not.
            if try store.add(row, blob: command.encoded, account: account) {
                actions.removeAll { if case .persist = $0 { true } else { false } }
                var change = try store.perform(actions, of: row, account: account)
                change.isNew = true
                return change
            }
        }
        // The same bytes get the same answer, whatever would be allowed now.
        if let known = try store.change(key, { $0.sentAgain(digest: command.digest) }) { return known }
        guard case .failure(let refusal) = admitted else { throw Refusal(.internalError, "a command is there and is not") }
        return CommandChange(command: descriptor, state: .accepted, effects: [.refuse(refusal)])
    }

    /// What of a target's mailbox counts as a sender's: of an established one its own, of any other one that of all those together.
    private static func mailboxShare(
        of sender: EndpointRow,
        with target: EndpointRow?,
        _ store: any StoreTransaction
    ) throws -> MailboxUse {
        guard let target else { return MailboxUse() }
        let shares = try store.mailboxShares(of: target.id, account: sender.account)
        guard sender.isNewcomer(to: target) else { return shares[sender.id] ?? MailboxUse() }
        var sum = MailboxUse()
        for (id, share) in shares {
            // What a revoked sender has left there counts too.
            if let row = try store.endpoint(id), !row.isNewcomer(to: target) { continue }
            sum.commands += share.commands
            sum.bytes += share.bytes
        }
        return sum
    }

    func cancel(_ request: EndpointMessage.CommandCancel, on channel: Channel) {
        let key = StoredCommandKey(account: channel.account, command: CommandKey(sender: channel.endpoint, id: request.id))
        let now = now
        transact(on: channel) { store in
            guard let change = try store.change(key, { $0.cancel(now: now().count) }) else {
                throw Refusal(.notFound, "there is no such command of this endpoint")
            }
            return change
        } then: { [self] state, result in
            switch result {
            case .success(let change):
                state.send(.ok(.init(ref: request.ref, result: .init(state: change.state))), to: channel.id)
                perform(change, in: channel.account, &state)
            case .failure(let error):
                state.send(.failure(Refusal(error).failure(request.ref)), to: channel.id)
            }
        }
    }

    func acknowledge(_ statement: EndpointMessage.CommandAcknowledge, on channel: Channel) {
        let key = StoredCommandKey(account: channel.account, command: CommandKey(sender: channel.endpoint, id: statement.id))
        transact(on: channel) { store in
            try store.change(key, { $0.acknowledged() })
        } then: { _, _ in
            // Without the write the outcome is told again on the sender's next channel.
        }
    }

    /// How many outcomes are read ahead for a channel. A sender may have a mailbox full of them, and as often as it connects.
    static let outcomesAtOnce = 16

    /// An outcome that a sender may have missed, and then the next. In a transaction of its own: all replies together may be large, and
    /// others wait meanwhile.
    func sendNextOutcome(to channel: Channel, _ state: inout State) {
        guard let next = state.outcomes[channel.id]?.popFirst() else { return state.outcomes[channel.id] = nil }
        let key = StoredCommandKey(account: channel.account, command: next)
        transact(for: channel.account) { store in
            try store.change(key, { $0.senderConnected() })
        } then: { [self] state, result in
            guard case .success(let change) = result else { return reopen(channel.id, &state) }
            defer { sendNextOutcome(to: channel, &state) }
            for case .final(let final) in change?.effects ?? [] {
                state.send(.commandStatus(.init(id: key.command.id, status: final.message)), to: channel.id)
            }
        }
    }

    /// What a channel was to be told could not be stored or read; its next one begins with all of it.
    func reopen(_ id: ChannelID, _ state: inout State) {
        guard let channel = state.channels[id] else { return }
        if channel.role == .host {
            let presence = Presence(.unavailable, .lost, since: now())
            state.accounts[channel.account]?.presences[channel.endpoint] = presence
            state.tell(.endpointUpdated(.init(endpoint: channel.endpoint, presence: presence)), watchersOf: channel.account)
        }
        state.close(channel, saying: nil, code: 1013, reason: "the relay cannot store anything now")
    }
}

extension RelayCore.State {
    /// Where a command can be offered in the transaction that stores it. It must not overtake those that are stored first and offered then.
    fileprivate mutating func beginOffer(of command: CommandDescriptor, in account: AccountID) -> ChannelID? {
        let target = command.lane.target
        if storing[target] == nil, let host = host(of: target, in: account), deliveries[host.id]?.begin(command) ?? false {
            return host.id
        }
        storing[target, default: 0] += 1
        return nil
    }

    fileprivate mutating func endStoring(for target: EndpointID) {
        guard let count = storing[target] else { return }
        storing[target] = count > 1 ? count - 1 : nil
    }
}

extension Refusal {
    fileprivate init(_ error: CommandError) {
        switch error {
        case .limitExceeded(let exceeded):
            self.init(.commandTooLarge, exceeded.description, limit: ExceededLimit(exceeded))
        case .unknownSuite: self.init(.unsupported, "the command is of a suite that this relay does not know")
        case .badSignature, .wrongAccount, .wrongRelay, .wrongTarget, .wrongSender:
            self.init(.signatureInvalid, "the command is not signed by this endpoint for this account and relay")
        default: self.init(.malformed, "the command cannot be read")
        }
    }
}
