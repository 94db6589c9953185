// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The transactions of an account, as data. Each has its code in an extension of `AccountTransaction`, and its completion in one of
/// `AccountRelay`; `execution` puts the two together.
///
/// Indirect, so that passing it on copies a reference.
indirect enum AccountWork: Hashable, Sendable {
    /// What an account knows of the host of an endpoint that may have to be woken.
    enum HostState: Hashable, Sendable {
        case absent, connected
        /// It is connected, but does not answer.
        case silent
    }

    // MARK: Channels
    case admit(ProvedHello, as: ChannelID, isVerified: Bool, at: Int64)
    case readBoxes(AccountChannel)
    case leave(EndpointMessage.Leaving, AccountChannel, at: Int64)
    case storeLoss(of: EndpointID, at: Int64)

    // MARK: The directory
    case watch(RequestRef, AccountChannel)
    /// Nothing is stored, but an earlier `watch` may still be waiting for its own transaction.
    case unwatch(RequestRef, AccountChannel)
    case readPresences(Set<EndpointID>)
    case readRegistrations(Set<EndpointID>)
    case publish(EndpointMessage.Publish, AccountChannel)
    case unpublish(EndpointMessage.Unpublish, AccountChannel)
    case update(EndpointMessage.EndpointUpdate, Signed<EndpointRecord>, AccountChannel)
    case approve(EndpointMessage.EndpointApprove, Signed<Voucher>, AccountChannel)
    case revoke(EndpointMessage.EndpointRevoke, AccountChannel)
    case link(Identity, RequestRef, AccountChannel)

    // MARK: Commands
    /// - host: the channel to which it is offered in the transaction that stores it.
    /// - sleeps: whether its target has no host channel.
    case send(SealedCommand, CommandHistory, RequestRef, AccountChannel, host: ChannelID?, sleeps: Bool)
    case cancel(EndpointMessage.CommandCancel, AccountChannel)
    case acknowledge(StoredCommandKey, AccountChannel)
    case readOutcome(StoredCommandKey, ChannelID)
    case offer(StoredCommandKey, ChannelID)
    case received(StoredCommandKey, AccountChannel)
    case end(EndpointMessage.CommandResult, CommandReceipt, AccountChannel)

    // MARK: Tunnels
    /// - sleeps: whether its target has to be woken.
    case openTunnel(EndpointMessage.TunnelOpen, sleeps: Bool, AccountChannel)
    case readOpeners(Set<EndpointID>, AccountChannel)

    // MARK: Wakes
    case register(EndpointMessage.NotificationsRegister, AccountChannel)
    /// - tunnels: the class of the tunnels that wait for the endpoint.
    case handlePush(EndpointID, HostState, tunnels: WakePayload.Urgency?, servedSince: Milliseconds, at: Int64)
    case startWaking(EndpointID, at: Int64)
    case waked(WakeRequest, WakeOutcome)

    /// - left: the request in the store, if it was left there.
    case serve(AccountRequest, as: UInt64, left: Int64?)
}

extension AccountWork {
    /// What the store runs, and what the account does with the result.
    struct Execution: Sendable {
        /// The channel that requested it. The relay stops reading from it while too much of its work waits.
        let channel: ChannelID?
        /// The size of the request that is kept until then, if it may be large.
        let bytes: Int
        /// Returns the error, if any. May run again after its writes were rolled back.
        let run: @Sendable (any StoreTransaction) -> (any Error)?
        /// Takes the error if the commit is not known to be on disk.
        /// - Returns: the error of the store, if it failed.
        let complete: @Sendable (inout AccountRelay, StoreError?) -> StoreError?

        init<Value: Sendable>(
            on channel: AccountChannel? = nil,
            bytes: Int = 0,
            _ body: @escaping @Sendable (any AccountTransaction) throws -> Value,
            then completion: @escaping @Sendable (inout AccountRelay, Result<Value, any Error>) -> Void
        ) {
            self.channel = channel?.id
            self.bytes = bytes
            let result = PendingResult<Value>()
            run = { result.run({ try body($0) }, in: $0) }
            complete = { relay, failure in
                let outcome = result.get(unless: failure)
                completion(&relay, outcome)
                if case .failure(let error as StoreError) = outcome { return error }
                return nil
            }
        }

        /// Serves a request of a channel, and answers `ok` if that succeeds.
        init<Value: Sendable>(
            serving ref: RequestRef,
            on channel: AccountChannel,
            _ body: @escaping @Sendable (any AccountTransaction) throws -> Value,
            then completion: @escaping @Sendable (inout AccountRelay, Value) -> Void
        ) {
            self.init(on: channel, body) { relay, result in
                switch result {
                case .success(let value):
                    relay.send(.ok(.init(ref: ref)), to: channel.id)
                    completion(&relay, value)
                case .failure(let error): relay.fail(ref, error, on: channel.id)
                }
            }
        }
    }

    /// - Parameter now: the time of the transaction, if it is not that of the input.
    func execution(of account: AccountID, _ rules: RelayRules, now: @escaping @Sendable () -> Milliseconds) -> Execution {
        switch self {
        case .admit(let hello, let id, let isVerified, let time):
            .init(
                { try HelloAdmission.decide(on: hello, isVerified: isVerified, to: account, $0, rules, at: time) },
                then: { $0.decided(on: hello, as: id, $1) }
            )
        case .readBoxes(let channel):
            .init({ try $0.boxes(of: channel) }, then: { $0.readBoxes(of: channel, $1) })
        case .leave(let request, let channel, let time):
            .init(
                serving: request.ref,
                on: channel,
                { try $0.leave(request.reason, channel, at: time) },
                then: { relay, _ in relay.left(request, on: channel) }
            )
        case .storeLoss(let endpoint, let time):
            .init({ try $0.storeLoss(of: endpoint, account: account, at: time) }, then: { _, _ in })

        case .watch(let ref, let channel):
            .init(serving: ref, on: channel, { try WatchedAccount(account, $0) }, then: { $0.watch(on: channel, $1) })
        case .unwatch(let ref, let channel):
            .init(serving: ref, on: channel, { _ in }, then: { relay, _ in relay.channels.unwatch(channel.id) })
        case .readPresences(let endpoints):
            .init({ try $0.presences(of: endpoints, in: account) }, then: { $0.readPresences(of: endpoints, $1) })
        case .readRegistrations(let endpoints):
            .init(
                { store in try endpoints.map { ($0, try store.published(by: $0)) } },
                then: { relay, result in
                    for (endpoint, registrations) in (try? result.get()) ?? [] { relay.published(registrations, by: endpoint) }
                }
            )
        case .publish(let request, let channel):
            .init(
                serving: request.ref,
                on: channel,
                { try $0.publish(request, on: channel, rules.limits) },
                then: { $0.published($1, by: channel.endpoint) }
            )
        case .unpublish(let request, let channel):
            .init(
                serving: request.ref,
                on: channel,
                { try $0.unpublish(request.appID, on: channel) },
                then: { $0.published($1, by: channel.endpoint) }
            )
        case .update(let request, let record, let channel):
            .init(serving: request.ref, on: channel, { try $0.update(record, on: channel) }, then: { $0.introduced($1) })
        case .approve(let request, let voucher, let channel):
            .init(serving: request.ref, on: channel, { try $0.approve(request, voucher, on: channel) }, then: { $0.introduced($1) })
        case .revoke(let request, let channel):
            .init(
                serving: request.ref,
                on: channel,
                { try $0.revoke(request, on: channel, rules, at: now().count) },
                then: { if let removal = $1 { $0.removed(removal) } }
            )
        case .link(let identity, let ref, let channel):
            .init(
                serving: ref,
                on: channel,
                { try $0.link(identity, on: channel, at: now().count) },
                then: { if let change = $1 { $0.changed(change, except: channel.endpoint) } }
            )

        case .send(let command, let history, let ref, let channel, let host, let sleeps):
            .init(
                on: channel,
                bytes: command.encoded.count,
                { try $0.send(command, history, isOffered: host != nil, sleeps: sleeps, in: account, rules, at: now().count) },
                then: { $0.sent(command.descriptor, ref, on: channel, host: host, $1) }
            )
        case .cancel(let request, let channel):
            .init(
                on: channel,
                { try $0.cancel(request.id, on: channel, at: now().count) },
                then: { $0.cancelled(request.ref, on: channel, $1) }
            )
        // If the write fails, the outcome is sent again on the sender's next channel.
        case .acknowledge(let key, let channel):
            .init(on: channel, { try $0.change(key) { $0.acknowledged() } }, then: { _, _ in })
        case .readOutcome(let key, let channel):
            .init({ try $0.change(key) { $0.senderConnected() } }, then: { $0.readOutcome(of: key.command, for: channel, $1) })
        case .offer(let key, let channel):
            .init({ try $0.change(key) { $0.offer(now: now().count) } }, then: { $0.offered(on: channel, $1) })
        case .received(let key, let channel):
            .init(
                on: channel,
                { try $0.change(key) { $0.command.lane.target == channel.endpoint ? $0.received() : [] } },
                then: { $0.received(on: channel, $1) }
            )
        case .end(let request, let receipt, let channel):
            .init(
                on: channel,
                bytes: request.receipt.bytes.count + (request.reply?.bytes.count ?? 0),
                { try $0.end(request, receipt, on: channel, rules, at: now().count) },
                then: { $0.ended(request, on: channel, $1) }
            )

        case .openTunnel(let request, let sleeps, let channel):
            .init(
                on: channel,
                { try $0.approve(request, sleeps: sleeps, on: channel, rules, at: now().count) },
                then: { $0.openTunnel(request, sleeps: sleeps, on: channel, $1) }
            )
        case .readOpeners(let openers, let host):
            .init({ try $0.introductions(of: openers, in: account) }, then: { $0.offerTunnels(to: host, $1) })

        case .register(let request, let channel):
            .init(
                serving: request.ref,
                on: channel,
                { try $0.register(request, on: channel, at: now().count) },
                then: { $0.registered($1, on: channel) }
            )
        case .handlePush(let endpoint, let presence, let tunnels, let since, let time):
            .init(
                { try $0.handlePush(of: endpoint, in: account, presence, tunnels: tunnels, servedSince: since, rules, at: time) },
                then: { $0.handledPush(presence, $1) }
            )
        case .startWaking(let endpoint, let time):
            .init({ try $0.startWaking(endpoint, of: account, at: time) }, then: { _, _ in })
        case .waked(let request, let outcome):
            .init(
                { try $0.waked(request, outcome, in: account, at: now().count) },
                then: { $0.waked(request.payload.endpoint, outcome, $1) }
            )

        case .serve(let request, let number, let left): request.execution(as: number, left: left, of: account, rules, now: now)
        }
    }
}
