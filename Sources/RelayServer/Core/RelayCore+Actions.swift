// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import Logging
import RelayCollections
import RelayProtocol
import RelayTracing
import Synchronization

/// Passes inputs to accounts and carries out their actions.
extension RelayCore {
    /// How many batches a thread delivers before it returns to its own work.
    private static let batchesAtOnce = 8

    /// Passes a request to an account that this node serves, or can. Calls back once, from any thread.
    /// - Parameter left: The request in the store, if it was left there.
    func perform(
        _ request: AccountRequest,
        on account: AccountID,
        left: Int64? = nil,
        answer: @escaping @Sendable (Result<AccountAnswer, StoreError>) -> Void
    ) {
        claim(.known(account)) { [self] claim in
            guard case .here(let account, _) = claim else { return answer(.failure(.leaseLost)) }
            let number = shards[account].state.withLock { $0.add(request: answer) }
            change(account) { $0.transact(.serve(request, as: number, left: left)) }
        }
    }

    func serve(_ request: AccountRequest, on account: AccountID, left: Int64? = nil) async throws(StoreError) -> AccountAnswer {
        try await withCheckedContinuation { continuation in
            perform(request, on: account, left: left) { continuation.resume(returning: $0) }
        }.get()
    }

    /// How long an answer of another node is waited for.
    private static let answerTime = Milliseconds(10_000)

    /// Passes a request to an account. If another node serves it, the request is left for that one.
    func perform(_ request: AccountRequest, on account: AccountID) async throws -> AccountAnswer {
        do throws(StoreError) {
            return try await serve(request, on: account)
        } catch {
            guard error == .leaseLost, leases != nil else { throw error }
        }
        let start = now()
        let id = try await store.transactGlobally { try $0.add(request, of: account, time: start.count) }
        while now().count < start.count + Self.answerTime.count {
            try await Task.sleep(for: .milliseconds(250))
            guard let answer = try await store.transactGlobally({ try $0.answer(of: id) }) else { continue }
            if answer == .failed { throw StoreError.unavailable("another node could not do it: its log says why") }
            return answer
        }
        throw StoreError.left
    }

    /// Passes an input to an account and carries out its actions. Messages are sent after the lock is released, since a peer may call
    /// back.
    /// - Returns: the result of the input; `nil` before the start.
    @discardableResult
    func change<Result: Sendable>(_ account: AccountID, _ input: (inout AccountRelay) -> Result) -> Result? {
        let (shard, now) = (shards[account], now())
        defer {
            pulse.beat()
            deliver(shard)
        }
        return shard.state.withLock { state -> Result? in
            guard let rules = state.rules else { return nil }
            let (result, actions, current, isIdle) = state.run(account, rules, at: now, input)
            for action in actions { perform(action, of: account, current, &state) }
            if isIdle { state.accounts[account] = nil }
            return result
        }
    }

    /// - Parameter rules: those of the account, which may be older than those of its shard.
    private func perform(_ action: AccountRelay.Action, of account: AccountID, _ rules: RelayRules, _ state: inout AccountShards.State) {
        switch action {
        // Submitted under the lock, so that the store keeps the order of the decisions.
        case .transact(let work): submit(work.execution(of: account, rules, now: now), of: account, endSpan: work.startSpan())
        case .send(let message, let channel):
            if let peer = state.channels[channel]?.peer { state.outgoing.append(.send(peer, message, whenWritten: nil)) }
        case .sendOutcome(let message, let channel):
            guard let peer = state.channels[channel]?.peer else { return }
            state.outgoing.append(.send(peer, message) { self.change(account) { $0.sendNextOutcome(to: channel) } })
        case .close(let channel, let code, let reason):
            if let peer = state.channels[channel]?.peer { state.outgoing.append(.close(peer, code: code, reason: reason)) }
        case .forget(let channel): state.channels[channel] = nil
        case .accept(let channel, let accountName, let limits):
            guard let arrival = state.arriving.removeValue(forKey: channel.id) else { return }
            state.channels[channel.id] = .init(channel, arrival.peer)
            let accepted = AcceptedChannel(channel.id, accountName: accountName, limits: limits)
            state.outgoing.append(.call { arrival.completion(.success(accepted)) })
        case .reject(let channel, let rejected):
            guard let arrival = state.arriving.removeValue(forKey: channel) else { return }
            state.outgoing.append(.call { arrival.completion(.failure(rejected)) })
        case .verify(let hello, let channel):
            state.outgoing.append(.call { self.verify(hello, as: channel, in: account) })
        case .redirect(let hello, let channel, let other):
            guard let arrival = state.arriving.removeValue(forKey: channel) else { return }
            state.outgoing.append(.call { self.connect(hello, to: .known(other), peer: arrival.peer, completion: arrival.completion) })
        case .tunnel(let action):
            if let call = tunnels.perform(action, of: account) { state.outgoing.append(.call(call)) }
        case .wake(let request): state.outgoing.append(.call { self.send(request) })
        case .endWakes(let endpoint): state.outgoing.append(.call { self.wakes?.connected(endpoint, of: account) })
        case .forgetWakes: state.outgoing.append(.call { self.wakes?.forget(account) })
        case .identity(let change): state.outgoing.append(.call { self.identityChanged(change) })
        case .endLogins: state.outgoing.append(.call { self.run(self.jobs.withLock { $0.endLogins(at: self.now().count) }) })
        case .answer(let number, let answer):
            if let answers = state.requests.removeValue(forKey: number) { state.outgoing.append(.call { answers(answer) }) }
        case .event(let event): state.outgoing.append(.call { self.events(event) })
        case .offerFailed(let reason):
            // Writing a line may block.
            state.outgoing.append(.call { self.logger.error("an offer could not be stored", metadata: ["error": "\(reason)"]) })
        }
    }

    /// - Parameter endSpan: Ends the span of the work, if its sender traces it.
    private func submit(_ execution: AccountWork.Execution, of account: AccountID, endSpan: (@Sendable (_ isSuccess: Bool) -> Void)?) {
        store.submit(
            StoreWork(
                account: account,
                channel: execution.channel,
                cost: StoreWork.cost(bytes: execution.bytes),
                run: execution.run,
                report: { [self, complete = execution.complete] failure in
                    endSpan?(failure == nil)
                    if let error = change(account, { complete(&$0, failure) }) ?? nil, error != .leaseLost { storeFailed(error) }
                }
            )
        )
    }

    /// Delivers the queued messages on one thread at a time, which keeps their order. While other threads add more, the calling thread
    /// (an event loop or the store's) returns to its own work after a few batches, and the shard's delivery queue continues.
    private func deliver(_ shard: AccountShards.Shard) {
        for _ in 0..<Self.batchesAtOnce {
            let batch = shard.state.withLock { $0.beginDelivery() }
            if batch.isEmpty { return }
            for outgoing in batch {
                switch outgoing {
                case .send(let peer, let message, let whenWritten): peer.send(message, whenWritten: whenWritten)
                case .close(let peer, let code, let reason): peer.close(code: code, reason: reason)
                case .call(let call): call()
                }
            }
            shard.state.withLock { $0.isDelivering = false }
        }
        shard.delivery.async { self.deliver(shard) }
    }
}

extension AccountShards.State {
    /// Changes an account in place.
    fileprivate mutating func run<Result>(
        _ account: AccountID,
        _ rules: RelayRules,
        at now: Milliseconds,
        _ input: (inout AccountRelay) -> Result
    ) -> (Result, [AccountRelay.Action], RelayRules, isIdle: Bool) {
        func give(_ relay: inout AccountRelay) -> (Result, [AccountRelay.Action], RelayRules, isIdle: Bool) {
            let (result, actions) = relay.run(at: now, input)
            if let deadline = relay.takeDeadline() { deadlines.insert(account, at: deadline) }
            return (result, actions, relay.rules, relay.isIdle)
        }
        let since = served == nil ? started : served?[account]
        let isStopping = isStopping || since == nil
        return give(&accounts[account, default: AccountRelay(account, rules: rules, servedSince: since ?? now, isStopping: isStopping)])
    }

    /// The accounts in memory that have something to do now.
    mutating func takeDueAccounts(at now: Milliseconds) -> [AccountID] {
        var due: Set<AccountID> = []
        while let account = deadlines.removeFirst(at: now) { if accounts[account] != nil { due.insert(account) } }
        return Array(due)
    }

    fileprivate mutating func beginDelivery() -> [AccountShards.Outgoing] {
        guard !isDelivering, !outgoing.isEmpty else { return [] }
        isDelivering = true
        defer { outgoing = [] }
        return outgoing
    }
}

extension AccountWork {
    /// The span of work that its sender traces. A trace shows that the relay took a command or a request for a tunnel, and when.
    fileprivate func startSpan() -> (@Sendable (_ isSuccess: Bool) -> Void)? {
        switch self {
        case .send(let command, _, _, _, _, _): Trace.start("accept command", .consumer, of: command.header.trace)
        case .openTunnel(let request, _, _): Trace.start("open tunnel", .server, of: request.trace)
        default: nil
        }
    }
}
