// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The stored result of an input to one command: the actions of its state machine with their data.
struct CommandChange: Sendable {
    enum Effect: Sendable {
        case accept
        case refuse(CommandRejection)
        case progress(CommandProgress)
        case final(CommandFinal)
        case offer([UInt8], Introduction?, wasReceived: Bool)
        case requestCancel
        case settle
        case answered
    }

    var command: CommandDescriptor
    /// The current state.
    var state: RelayMessage.CommandStatus.State
    var effects: [Effect]
    /// The class of the wakes for the command, if this input stored it.
    var newUrgency: WakePayload.Urgency?

    var isOffered: Bool { effects.contains { if case .offer = $0 { true } else { false } } }
    var isRefused: Bool { effects.contains { if case .refuse = $0 { true } else { false } } }
}

extension AccountTransaction {
    /// Passes an input to a stored command. Returns `nil` if there is no such command.
    func change(
        _ key: StoredCommandKey,
        _ input: (inout MailboxCommand) -> [MailboxCommand.Action]
    ) throws -> CommandChange? {
        guard var row = try command(key) else { return nil }
        let actions = input(&row)
        return try perform(actions, of: row, account: key.account)
    }

    /// Carries out the store's part of a command's actions.
    func perform(_ actions: [MailboxCommand.Action], of row: MailboxCommand, account: AccountID) throws -> CommandChange {
        let key = StoredCommandKey(account: account, command: row.command.key)
        var effects: [CommandChange.Effect] = []
        for action in actions {
            switch action {
            case .persist(let row): try update(row, account: account)
            case .note(let row): try note(row, account: account)
            case .remove: try removeCommand(key)
            case .accept: effects.append(.accept)
            case .refuse(let rejection): effects.append(.refuse(rejection))
            case .progress(let progress): effects.append(.progress(progress))
            case .final(let final): effects.append(.final(final))
            case .offer(let wasReceived):
                guard let blob = try self.blob(of: key) else { throw Rejection(.internalError, "a command has lost its bytes") }
                let sender = try endpoint(row.command.lane.sender, of: account)
                effects.append(.offer(blob, try sender.map { try introduction(of: $0) }, wasReceived: wasReceived))
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
    /// The message for the sender.
    fileprivate var status: RelayMessage.CommandStatus.Status {
        switch self {
        case .accepted: .step(.accepted)
        case .waking(let wake): .waking(wake)
        case .delivered: .step(.delivered)
        }
    }
}

extension CommandFinal {
    /// The message for the sender.
    var message: RelayMessage.CommandStatus.Status {
        guard let receipt else { return .attestedByRelay(outcome) }
        return .attestedByTarget(Blob(receipt), reply: reply.map { Blob($0) })
    }
}

extension AccountRelay {
    /// Sends the effects of a committed change to sender and target.
    /// - Parameters:
    ///   - request: the request that caused it, for the answer.
    ///   - target: the host channel for an offer; by default the open one.
    mutating func perform(_ change: CommandChange, request: (channel: ChannelID, ref: RequestRef)? = nil, target: ChannelID? = nil) {
        let (sender, id) = (change.command.lane.sender, change.command.id)
        let host = channels.host(of: change.command.lane.target)?.id
        for effect in change.effects {
            switch effect {
            case .accept:
                guard let request else { continue }
                send(.ok(.init(ref: request.ref, result: .init(state: change.state))), to: request.channel)
            case .refuse(let rejection):
                guard let request else { continue }
                send(.failure(failure(rejection, request.ref)), to: request.channel)
            case .progress(let progress): tell(sender, progress.status, of: id)
            case .final(let final): tell(sender, final.message, of: id)
            case .offer(let blob, let introduction, let wasReceived):
                guard let target, target == host else { continue }
                send(.command(.init(command: Blob(blob), sender: introduction, wasReceived: wasReceived)), to: target)
                if let deadline = hosts.offered(to: target, at: now) { noteDeadline(deadline) }
            case .requestCancel:
                guard let host else { continue }
                send(.commandCancel(.init(sender: sender, id: id)), to: host)
            case .settle:
                guard let request else { continue }
                send(.commandSettled(.init(ref: request.ref, sender: sender, id: id)), to: request.channel)
            case .answered:
                guard let host else { continue }
                answered(change.command, on: host)
            }
        }
    }

    mutating func tell(_ sender: EndpointID, _ status: RelayMessage.CommandStatus.Status, of id: CommandID) {
        for channel in channels.channels(of: sender) { send(.commandStatus(.init(id: id, status: status)), to: channel.id) }
    }

    private func failure(_ rejection: CommandRejection, _ ref: RequestRef) -> RelayMessage.Failure {
        var failure = RelayMessage.Failure(
            ref: ref,
            code: ControlErrorCode(rawValue: rejection.code),
            message: "the command was not stored",
            mayHaveRun: rejection.mayHaveRun
        )
        switch rejection.reason {
        case .clockSkew: failure.time = now
        case .numberPassed: failure.highest = rejection.highest
        case .limit(let exceeded):
            failure.limit = ExceededLimit(exceeded)
            failure.message = exceeded.description
        default: break
        }
        return failure
    }
}
