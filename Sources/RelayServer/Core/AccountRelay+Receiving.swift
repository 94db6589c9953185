// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Commands, on the side of their targets.
extension AccountRelay {
    /// The outcomes that the sender may have missed, and the mailbox of a host, for a channel that has just opened. A host is offered all
    /// commands without a stored result, as the window allows.
    mutating func readBoxes(
        of channel: AccountChannel,
        _ result: Result<(outcomes: [CommandKey], mailbox: [CommandDescriptor]?), any Error>
    ) {
        guard case .success(let (outcomes, mailbox)) = result else { return reopen(channel.id) }
        guard let leaving = channels.leaving(channel.id) else { return }
        mailboxes.read(outcomes, leaving == .stored ? nil : mailbox, for: channel.id)
        for _ in 0..<Mailboxes.outcomesAtOnce(rules.limits) { sendNextOutcome(to: channel.id) }
        offerNext(on: channel.id)
    }

    /// Offers as many commands as the window allows. Offers leave in the order in which they were chosen, since transactions keep their
    /// order.
    mutating func offerNext(on channel: ChannelID) {
        while let command = mailboxes.nextOffer(on: channel) { transact(.offer(StoredCommandKey(account: id, command: command), channel)) }
        guard let endpoint = channels[channel]?.endpoint else { return }
        for ref in mailboxes.takeDrained(by: endpoint, on: channel) { send(.ok(.init(ref: ref)), to: channel) }
    }

    mutating func offered(on channel: ChannelID, _ result: Result<CommandChange?, any Error>) {
        switch result {
        case .success(let change?): perform(change, target: channel)
        // The command has ended meanwhile, and its end was already reported.
        case .success(nil): break
        case .failure(let error):
            perform(.offerFailed(reason: "\(error)"))
            reopen(channel)
        }
    }

    /// Answers once the endpoint has stored every command in its mailbox, or the command has ended.
    mutating func drain(_ request: EndpointMessage.MailboxDrain, on channel: AccountChannel) {
        guard channels.leaving(channel.id) != .stored, mailboxes.drain(request.ref, on: channel.id) else {
            let rejection = Rejection(.unavailable, "this channel ends, or has asked too often", retryAfter: 1_000)
            return fail(request.ref, rejection, on: channel.id)
        }
        for ref in mailboxes.takeDrained(by: channel.endpoint, on: channel.id) { send(.ok(.init(ref: ref)), to: channel.id) }
    }

    /// Marks a command as answered on the channel of its target: it takes no more room in the window.
    mutating func answered(_ command: CommandDescriptor, on host: ChannelID) {
        mailboxes.answered(command, on: host)
        offerNext(on: host)
    }

    mutating func received(on channel: AccountChannel, _ result: Result<CommandChange?, any Error>) {
        switch result {
        case .success(let change?): perform(change)
        case .success(nil): break
        case .failure: reopen(channel.id)
        }
    }

    mutating func ended(_ request: EndpointMessage.CommandResult, on channel: AccountChannel, _ result: Result<ResultEnding, any Error>) {
        switch result {
        case .success(.stored(let change)): perform(change, request: (channel.id, request.ref))
        case .success(.noRoom(let rejection, let command)):
            // The target keeps the result until senders have fetched theirs. It has stored the command, so others can be offered.
            send(.failure(rejection.failure(request.ref)), to: channel.id)
            answered(command, on: channel.id)
        case .success(.unknown):
            send(.commandSettled(.init(ref: request.ref, sender: request.sender, id: request.id)), to: channel.id)
        case .failure(let error):
            let rejection = Rejection(error)
            send(.failure(rejection.failure(request.ref)), to: channel.id)
            // Without a new channel the command would stay unanswered; on a new channel the target sends the result again.
            if rejection.code != .notFound { reopen(channel.id) }
        }
    }
}

/// What a transaction makes of a result.
enum ResultEnding: Sendable {
    case stored(CommandChange)
    /// The relay does not know the command, and no sender waits for its result.
    case unknown
    /// The account has no room for the reply.
    case noRoom(Rejection, for: CommandDescriptor)
}

extension AccountTransaction {
    func boxes(of channel: AccountChannel) throws -> (outcomes: [CommandKey], mailbox: [CommandDescriptor]?) {
        let ended = try commands(from: channel.endpoint, isFinal: true, account: channel.account)
        return (ended, channel.role == .host ? try mailbox(of: channel.endpoint, account: channel.account) : nil)
    }

    /// Stores a result from the command's target.
    func end(
        _ request: EndpointMessage.CommandResult,
        _ receipt: CommandReceipt,
        on channel: AccountChannel,
        _ rules: RelayRules,
        at now: Int64
    ) throws -> ResultEnding {
        let account = channel.account
        let key = StoredCommandKey(account: account, command: CommandKey(sender: request.sender, id: request.id))
        let final = CommandFinal(outcome: receipt.outcome, receipt: request.receipt.bytes, reply: request.reply?.bytes)
        let known = try command(key)
        guard known?.command.lane.target == channel.endpoint else {
            if rules.admission.settlesUnknownResult(now: now) { return .unknown }
            throw Rejection(.notFound, "the relay does not know the command yet: keep the result")
        }
        // A result that takes no more room than its command, which goes, always fits: also above a quota that was lowered.
        if let reply = final.reply, let known, !known.isFinal, request.receipt.bytes.count + reply.count > known.command.size {
            let (requested, limits) = (try storedBytes(of: account) + reply.count, try quotas(of: account).applied(to: rules.limits))
            do throws(LimitExceeded) {
                try limits.check(.accountBytes, requested)
            } catch {
                return .noRoom(Rejection(exceeding: error), for: known.command)
            }
        }
        return try change(key) { $0.ended(final, digest: receipt.command, now: now) }.map { .stored($0) } ?? .unknown
    }
}
