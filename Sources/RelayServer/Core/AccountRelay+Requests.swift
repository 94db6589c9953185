// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension AccountRelay {
    /// Handles a message on an open channel. Messages arrive in order.
    mutating func receive(_ message: CheckedMessage, on channel: AccountChannel) {
        // The channel may have been closed meanwhile.
        guard channels[channel.id] != nil else { return }
        if !offerTimes.isEmpty { offerTimes[channel.id] = nil }
        // It has answered the wake, as an endpoint does that connects.
        if !wokenHosts.isEmpty, wokenHosts.remove(channel.id) != nil { handlePush(of: channel.endpoint) }
        switch message {
        case .publish(let request): publish(request, on: channel)
        case .update(let request, let record): update(request, record, on: channel)
        case .approve(let request, let voucher): approve(request, voucher, on: channel)
        case .revoke(let request): revoke(request, on: channel)
        case .send(let request, let command): send(request, command, on: channel)
        case .result(let request, let receipt): ended(request, receipt, on: channel)
        case .refused(let failure): send(.failure(failure), to: channel.id)
        case .ignored: break
        case .other(let message): receive(message, on: channel)
        }
    }

    private mutating func receive(_ message: EndpointMessage, on channel: AccountChannel) {
        switch message {
        case .unpublish(let request): unpublish(request, on: channel)
        case .leaving(let request): leave(request, on: channel)
        case .watch(let request): watch(request, on: channel)
        case .unwatch(let request): unwatch(request, on: channel)
        case .commandCancel(let request): cancel(request, on: channel)
        case .commandReceived(let statement): received(statement, on: channel)
        case .commandAcknowledge(let statement): acknowledge(statement, on: channel)
        case .mailboxDrain(let request): drain(request, on: channel)
        case .tunnelOpen(let request): openTunnel(request, on: channel)
        case .tunnelDecline(let statement): decline(statement, on: channel)
        case .notificationsRegister(let request): register(request, on: channel)
        // `CheckedMessage` has its own cases for these, or the transport handles them.
        case .publish, .endpointUpdate, .endpointApprove, .endpointRevoke, .commandSend, .commandResult, .hello, .authRefresh,
            .identityLink:
            break
        }
    }
}
