// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// Commands, on the side of their targets.
extension AccountRelay {
    /// Reads mailbox and outcomes for a channel that has just opened. The sender may have missed outcomes. A host is also offered all
    /// commands without a stored result, as the window allows.
    mutating func readBoxes(of channel: AccountChannel) {
        let account = id
        transact { store, _ in
            let ended = try store.commands(from: channel.endpoint, isFinal: true, account: account)
            return (ended, channel.role == .host ? try store.mailbox(of: channel.endpoint, account: account) : nil)
        } then: { (relay, result: Result<([CommandKey], [CommandDescriptor]?), any Error>) in
            guard case .success((let ended, let mailbox)) = result else { return relay.reopen(channel.id) }
            let isOpen: Void? = relay.change(channel.id) { open in
                open.outcomes = ended[...]
                if let mailbox, !open.hasLeft { open.delivery = CommandDelivery(mailbox: mailbox) }
            }
            guard isOpen != nil else { return }
            for _ in 0..<Self.outcomesAtOnce(relay.rules.limits) { relay.sendNextOutcome(to: channel.id) }
            relay.offerNext(on: channel.id)
        }
    }

    /// Offers as many commands as the window allows. Offers leave in the order in which they were chosen, since transactions keep their
    /// order.
    mutating func offerNext(on channel: ChannelID) {
        while let command = change(channel, { $0.delivery?.next() }) ?? nil {
            let key = StoredCommandKey(account: id, command: command)
            transact { store, now in
                try store.change(key) { $0.offer(now: now) }
            } then: { relay, result in
                switch result {
                case .success(let change?): relay.perform(change, target: channel)
                // The command has ended meanwhile, and its end was already reported.
                case .success(nil): break
                case .failure(let error):
                    relay.perform(.log(.error, "an offer could not be stored", ["error": "\(error)"]))
                    relay.reopen(channel)
                }
            }
        }
        answerDrains(on: channel)
    }

    private static let drainsAtOnce = 4

    /// Answers once the endpoint has stored every command in its mailbox, or the command has ended.
    mutating func drain(_ request: EndpointMessage.MailboxDrain, on channel: AccountChannel) {
        guard let open = channels[channel.id], !open.hasLeft, open.drains.count < Self.drainsAtOnce else {
            return fail(
                request.ref,
                Rejection(.unavailable, "this channel ends, or has asked too often", retryAfter: 1_000),
                on: channel.id
            )
        }
        change(channel.id) { $0.drains.append(request.ref) }
        answerDrains(on: channel.id)
    }

    private mutating func answerDrains(on channel: ChannelID) {
        // Before the mailbox is read there is no delivery.
        guard let open = channels[channel], !open.drains.isEmpty, open.delivery?.isEmpty == true, storing[open.channel.endpoint] == nil
        else { return }
        change(channel) { $0.drains = [] }
        for ref in open.drains { send(.ok(.init(ref: ref)), to: channel) }
    }

    /// Marks a command as answered on the channel of its target: it takes no more room in the window.
    mutating func answered(_ command: CommandDescriptor, on host: ChannelID) {
        change(host) { $0.delivery?.answered(command) }
        offerNext(on: host)
    }

    mutating func received(_ statement: EndpointMessage.CommandReceived, on channel: AccountChannel) {
        let key = StoredCommandKey(account: id, command: CommandKey(sender: statement.sender, id: statement.id))
        transact(on: channel) { store, _ in
            try store.change(key) { $0.command.lane.target == channel.endpoint ? $0.received() : [] }
        } then: { relay, result in
            switch result {
            case .success(let change?): relay.perform(change)
            case .success(nil): break
            case .failure: relay.reopen(channel.id)
            }
        }
    }

    /// What a transaction makes of a result.
    private enum ResultEnding: Sendable {
        case stored(CommandChange)
        /// The relay does not know the command, and no sender waits for its result.
        case unknown
        /// The account has no room for the reply.
        case noRoom(Rejection, for: CommandDescriptor)
    }

    mutating func ended(_ request: EndpointMessage.CommandResult, _ receipt: CommandReceipt, on channel: AccountChannel) {
        let (account, rules) = (id, rules)
        let key = StoredCommandKey(account: account, command: CommandKey(sender: request.sender, id: request.id))
        let final = CommandFinal(outcome: receipt.outcome, receipt: request.receipt.bytes, reply: request.reply?.bytes)
        transact(on: channel, bytes: request.receipt.bytes.count + (request.reply?.bytes.count ?? 0)) { store, now in
            let known = try store.command(key)
            guard known?.command.lane.target == channel.endpoint else {
                if rules.admission.settlesUnknownResult(now: now) { return .unknown }
                throw Rejection(.notFound, "the relay does not know the command yet: keep the result")
            }
            if let reply = final.reply, let known, !known.isFinal {
                let requested = try store.storedBytes(of: account) + reply.count
                do throws(LimitExceeded) {
                    try rules.limits.check(.accountBytes, requested)
                } catch {
                    return .noRoom(Rejection(exceeding: error), for: known.command)
                }
            }
            return try store.change(key) { $0.ended(final, digest: receipt.command, now: now) }.map { .stored($0) } ?? .unknown
        } then: { (relay, result: Result<ResultEnding, any Error>) in
            switch result {
            case .success(.stored(let change)): relay.perform(change, request: (channel.id, request.ref))
            case .success(.noRoom(let rejection, let command)):
                // The target keeps the result until senders have fetched theirs. It has stored the command, so others can be offered.
                relay.send(.failure(rejection.failure(request.ref)), to: channel.id)
                relay.answered(command, on: channel.id)
            case .success(.unknown):
                let settled = RelayMessage.CommandSettled(ref: request.ref, sender: request.sender, id: request.id)
                relay.send(.commandSettled(settled), to: channel.id)
            case .failure(let error):
                let rejection = Rejection(error)
                relay.send(.failure(rejection.failure(request.ref)), to: channel.id)
                // Without a new channel the command would stay unanswered; on a new channel the target sends the result again.
                if rejection.code != .notFound { relay.reopen(channel.id) }
            }
        }
    }
}
