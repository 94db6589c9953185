// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// Commands, for their targets.
extension RelayCore {
    /// An endpoint connected. As a sender it may have missed outcomes; as a target, if it is a host, it is offered everything without a
    /// committed result, as the window allows.
    func readBoxes(of channel: Channel) {
        transact(for: channel.account) { store in
            let ended = try store.commands(from: channel.endpoint, isFinal: true, account: channel.account)
            return (ended, channel.role == .host ? try store.mailbox(of: channel.endpoint, account: channel.account) : nil)
        } then: { [self] (state, result: Result<([CommandKey], [CommandDescriptor]?), any Error>) in
            guard case .success((let ended, let mailbox)) = result else { return reopen(channel.id, &state) }
            guard state.channels[channel.id] != nil else { return }
            state.outcomes[channel.id] = ended[...]
            for _ in 0..<Self.outcomesAtOnce { sendNextOutcome(to: channel, &state) }
            guard let mailbox, !state.left.contains(channel.id) else { return }
            state.deliveries[channel.id] = CommandDelivery(mailbox: mailbox)
            offerNext(on: channel.id, &state)
        }
    }

    /// Offers what there is room for. The offers leave in the order in which they were chosen, since transactions keep theirs.
    func offerNext(on id: ChannelID, _ state: inout State) {
        guard let account = state.channels[id]?.account else { return }
        while let key = state.deliveries[id]?.next() {
            let (key, now) = (StoredCommandKey(account: account, command: key), now)
            transact(for: account) { store in
                try store.change(key, { $0.offer(now: now().count) })
            } then: { [self] state, result in
                switch result {
                case .success(let change?): perform(change, in: account, &state, target: id)
                // What is gone has ended before, and said so.
                case .success(nil): break
                case .failure(let error):
                    logger.error("an offer could not be stored", metadata: ["error": "\(error)"])
                    reopen(id, &state)
                }
            }
        }
    }

    func received(_ statement: EndpointMessage.CommandReceived, on channel: Channel) {
        let key = StoredCommandKey(account: channel.account, command: CommandKey(sender: statement.sender, id: statement.id))
        transact(on: channel) { store in
            guard try store.command(key)?.command.lane.target == channel.endpoint else { return nil }
            return try store.change(key, { $0.received() })
        } then: { [self] (state, result: Result<CommandChange?, any Error>) in
            switch result {
            case .success(let change?): perform(change, in: channel.account, &state)
            case .success(nil): break
            case .failure: reopen(channel.id, &state)
            }
        }
    }

    func ended(_ request: EndpointMessage.CommandResult, on channel: Channel) {
        let key = StoredCommandKey(account: channel.account, command: CommandKey(sender: request.sender, id: request.id))
        let receipt: CommandReceipt
        do throws(RecordError) {
            // Whether its signature holds is for the sender to find out: on this channel nobody but the target speaks, and it could sign
            // whatever it likes.
            receipt = try Unverified<CommandReceipt>(decoding: request.receipt.bytes).payload
            try receipt.validate(limits: limits)
            guard receipt.sender == request.sender, receipt.target == channel.endpoint else { throw .wrongEndpoint }
            guard receipt.reply == request.reply.map({ Digest256(hashing: $0.bytes) }) else { throw .badSignature }
        } catch {
            return refuse(Refusal(error), request.ref, on: channel.id)
        }
        guard let admission = change({ $0.admission }) else { return }
        let final = CommandFinal(outcome: receipt.outcome, receipt: request.receipt.bytes, reply: request.reply?.bytes)
        let (now, limits) = (now, limits)
        transact(on: channel, bytes: request.receipt.bytes.count + (request.reply?.bytes.count ?? 0)) { store in
            let known = try store.command(key)
            guard known?.command.lane.target == channel.endpoint else {
                if admission.settlesUnknownResult(now: now().count) { return nil }
                throw Refusal(.notFound, "the relay does not know the command yet: keep the result")
            }
            if let reply = final.reply, known?.isFinal == false {
                let requested = try store.storedBytes(of: channel.account) + reply.count
                try limits.check(.accountBytes, requested) { Refusal(exceeding: $0) }
            }
            return try store.change(key, { $0.ended(final, digest: receipt.command, now: now().count) })
        } then: { [self] (state, result: Result<CommandChange?, any Error>) in
            switch result {
            case .success(let change?):
                perform(change, in: channel.account, &state, request: (channel.id, request.ref))
            case .success(nil):
                let settled = RelayMessage.CommandSettled(ref: request.ref, sender: request.sender, id: request.id)
                state.send(.commandSettled(settled), to: channel.id)
            case .failure(let error):
                let refusal = Refusal(error)
                state.send(.failure(refusal.failure(request.ref)), to: channel.id)
                // The command would stay unanswered; on its next channel the target tells the result again.
                // For want of room a new channel would not help: the target keeps the result until senders have taken theirs.
                if refusal.code != .notFound, refusal.code != .limitExceeded { reopen(channel.id, &state) }
            }
        }
    }
}
