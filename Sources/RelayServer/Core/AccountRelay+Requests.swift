// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension AccountRelay {
    /// Handles a message on an open channel. Messages arrive in order.
    mutating func receive(_ message: CheckedMessage, on channel: AccountChannel) {
        // The channel may have been closed meanwhile.
        guard channels.contains(channel.id) else { return }
        if hosts.heard(from: channel.id) { handlePush(of: channel.endpoint) }
        switch message {
        case .publish(let request): transact(.publish(request, channel))
        case .update(let request, let record): transact(.update(request, record, channel))
        case .approve(let request, let voucher): transact(.approve(request, voucher, channel))
        case .revoke(let request): transact(.revoke(request, channel))
        case .send(let request, let command): send(request, command, on: channel)
        case .result(let request, let receipt): transact(.end(request, receipt, channel))
        case .refused(let failure): send(.failure(failure), to: channel.id)
        case .ignored: break
        case .other(let message): receive(message, on: channel)
        }
    }

    private mutating func receive(_ message: EndpointMessage, on channel: AccountChannel) {
        switch message {
        case .unpublish(let request): transact(.unpublish(request, channel))
        case .leaving(let request): leave(request, on: channel)
        case .watch(let request): transact(.watch(request.ref, channel))
        case .unwatch(let request): transact(.unwatch(request.ref, channel))
        case .commandCancel(let request): transact(.cancel(request, channel))
        case .commandReceived(let statement): transact(.received(key(statement.sender, statement.id), channel))
        case .commandAcknowledge(let statement): transact(.acknowledge(key(channel.endpoint, statement.id), channel))
        case .mailboxDrain(let request): drain(request, on: channel)
        case .tunnelOpen(let request): openTunnel(request, on: channel)
        case .tunnelDecline(let statement): decline(statement, on: channel)
        case .tunnelCandidates(let statement): pass(statement, on: channel)
        case .notificationsRegister(let request): register(request, on: channel)
        // `CheckedMessage` has its own cases for these, or the transport handles them.
        case .publish, .endpointUpdate, .endpointApprove, .endpointRevoke, .commandSend, .commandResult, .hello, .authRefresh,
            .identityLink:
            break
        }
    }

    private func key(_ sender: EndpointID, _ id: CommandID) -> StoredCommandKey {
        StoredCommandKey(account: self.id, command: CommandKey(sender: sender, id: id))
    }
}
