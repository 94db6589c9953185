// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What came of an input to one command, once it is stored: the actions of its state machine with what they carry.
struct CommandChange: Sendable {
    enum Effect: Sendable {
        case accept
        case refuse(CommandRefusal)
        case progress(CommandProgress)
        case final(CommandFinal)
        case offer([UInt8], Introduction?)
        case requestCancel
        case settle
        case answered
    }

    var command: CommandDescriptor
    /// How far it is now.
    var state: RelayMessage.CommandStatus.State
    var effects: [Effect]
    /// It was not stored before.
    var isNew = false

    var isOffered: Bool { effects.contains { if case .offer = $0 { true } else { false } } }
    var isRefused: Bool { effects.contains { if case .refuse = $0 { true } else { false } } }
}

extension StoreTransaction {
    /// Gives a stored command an input; `nil` if there is no such command.
    func change(
        _ key: StoredCommandKey,
        _ input: (inout MailboxCommand) -> [MailboxCommand.Action]
    ) throws -> CommandChange? {
        guard var row = try command(key) else { return nil }
        let actions = input(&row)
        return try perform(actions, of: row, account: key.account)
    }

    /// Does what a stored command's actions want of the store.
    func perform(_ actions: [MailboxCommand.Action], of row: MailboxCommand, account: AccountID) throws -> CommandChange {
        let key = StoredCommandKey(account: account, command: row.command.key)
        var effects: [CommandChange.Effect] = []
        for action in actions {
            switch action {
            case .persist(let row): try update(row, account: account)
            case .note(let row): try note(row, account: account)
            case .remove: try removeCommand(key)
            case .accept: effects.append(.accept)
            case .refuse(let refusal): effects.append(.refuse(refusal))
            case .progress(let progress): effects.append(.progress(progress))
            case .final(let final): effects.append(.final(final))
            case .offer:
                guard let blob = try self.blob(of: key) else { throw Refusal(.internalError, "a command has lost its bytes") }
                let sender = try endpoint(row.command.lane.sender).flatMap { $0.account == account ? $0 : nil }
                effects.append(.offer(blob, try sender.map { try introduction(of: $0) }))
            case .requestCancel: effects.append(.requestCancel)
            case .settle: effects.append(.settle)
            case .answered: effects.append(.answered)
            }
        }
        return CommandChange(command: row.command, state: .init(row.state), effects: effects)
    }
}

extension RelayMessage.CommandStatus.State {
    fileprivate init(_ state: MailboxCommand.State) {
        switch state {
        case .stored, .offered(received: false, _): self = .accepted
        case .offered(received: true, _): self = .delivered
        case .final: self = .final
        }
    }
}

extension CommandProgress {
    fileprivate var state: RelayMessage.CommandStatus.State {
        switch self {
        case .accepted: .accepted
        case .waking: .waking
        case .delivered: .delivered
        }
    }
}

extension CommandFinal {
    /// As its sender is told.
    var message: RelayMessage.CommandStatus.Status {
        guard let receipt else { return .attestedByRelay(outcome) }
        return .attestedByTarget(Blob(receipt), reply: reply.map { Blob($0) })
    }
}

extension RelayCore {
    /// Says what a committed change is to sender and target.
    /// - Parameters:
    ///   - request: What asked for it, for its answer.
    ///   - target: The host channel that an offer is for; without it, the one that is open.
    func perform(
        _ change: CommandChange,
        in account: AccountID,
        _ state: inout State,
        request: (channel: ChannelID, ref: RequestRef)? = nil,
        target: ChannelID? = nil
    ) {
        let (sender, id) = (change.command.lane.sender, change.command.id)
        let host = state.host(of: change.command.lane.target, in: account)?.id
        func tellSender(_ status: RelayMessage.CommandStatus.Status) {
            for channel in state.channels(of: sender, in: account) {
                state.send(.commandStatus(.init(id: id, status: status)), to: channel.id)
            }
        }
        for effect in change.effects {
            switch effect {
            case .accept:
                guard let request else { continue }
                state.send(.ok(.init(ref: request.ref, result: .init(state: change.state))), to: request.channel)
            case .refuse(let refusal):
                guard let request else { continue }
                state.send(.failure(failure(refusal, request.ref)), to: request.channel)
            case .progress(let progress): tellSender(.step(progress.state))
            case .final(let final): tellSender(final.message)
            case .offer(let blob, let introduction):
                guard let target, target == host else { continue }
                state.send(.command(.init(command: Blob(blob), sender: introduction)), to: target)
            case .requestCancel:
                guard let host else { continue }
                state.send(.commandCancel(.init(sender: sender, id: id)), to: host)
            case .settle:
                guard let request else { continue }
                state.send(.commandSettled(.init(ref: request.ref, sender: sender, id: id)), to: request.channel)
            case .answered:
                guard let host else { continue }
                state.deliveries[host]?.answered(change.command)
                offerNext(on: host, &state)
            }
        }
    }

    private func failure(_ refusal: CommandRefusal, _ ref: RequestRef) -> RelayMessage.Failure {
        var failure = RelayMessage.Failure(
            ref: ref,
            code: ControlErrorCode(rawValue: refusal.code),
            message: "the command was not stored",
            mayHaveRun: refusal.mayHaveRun
        )
        switch refusal.reason {
        case .clockSkew: failure.time = now()
        case .limit(let exceeded):
            failure.limit = ExceededLimit(exceeded)
            failure.message = exceeded.description
        default: break
        }
        return failure
    }
}
