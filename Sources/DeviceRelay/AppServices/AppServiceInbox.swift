// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// What has come for a connection: requests that the app has not taken, and at last the connection's end.
///
/// It holds what its carrier puts in, which bounds it.
package final class AppServiceInbox: Sendable {
    package typealias Ticket = UInt64
    private typealias RequestWaiter = CheckedContinuation<(any AppServiceExchange)?, Never>
    private typealias ClosureWaiter = CheckedContinuation<AppServiceClosure?, Never>

    private struct State {
        var requests = WaitingLine<any AppServiceExchange>()
        var requestWaiters = WaitingLine<RequestWaiter>()
        var closureWaiters = WaitingLine<ClosureWaiter>()
        var closure: AppServiceClosure?
    }

    private let state = Mutex(State())

    package init() {}

    /// How the connection was closed; `nil` while it is open.
    package var closure: AppServiceClosure? { state.withLock(\.closure) }

    /// Adds a request.
    /// - Returns: What takes it back; `nil` if somebody waited for it, and has it.
    package func deliver(_ exchange: any AppServiceExchange) -> Ticket? {
        let (ticket, waiter): (Ticket?, RequestWaiter?) = state.withLock { state in
            guard let waiter = state.requestWaiters.first else { return (state.requests.append(exchange), nil) }
            return (nil, state.requestWaiters.remove(waiter.ticket))
        }
        waiter?.resume(returning: exchange)
        return ticket
    }

    /// Takes a request back. Without effect if the app has it.
    package func withdraw(_ ticket: Ticket) {
        _ = state.withLock { $0.requests.remove(ticket) }
    }

    /// Closes the connection. What was not taken is dropped; the first reason stands.
    package func close(_ closure: AppServiceClosure) {
        let closed = state.withLock { state -> State? in
            guard state.closure == nil else { return nil }
            defer { state = State(closure: closure) }
            return state
        }
        guard var closed else { return }
        while let waiter = closed.requestWaiters.popFirst() { waiter.resume(returning: nil) }
        while let waiter = closed.closureWaiters.popFirst() { waiter.resume(returning: closure) }
    }

    /// The next request; `nil` when the connection is closed, or the task is cancelled.
    func next() async -> (any AppServiceExchange)? {
        if let ready = state.withLock({ $0.requests.popFirst() }) { return ready }
        return await wait(in: \.requestWaiters) { state in
            if let request = state.requests.popFirst() { return .some(request) }
            return state.closure == nil ? nil : .some(nil)
        }
    }

    /// How the connection was closed, once it is; `nil` if the task is cancelled before.
    func closed() async -> AppServiceClosure? {
        await wait(in: \.closureWaiters) { $0.closure }
    }

    /// Waits in a line, unless there is something already.
    private func wait<Value: Sendable>(
        in line: any WritableKeyPath<State, WaitingLine<CheckedContinuation<Value?, Never>>> & Sendable,
        unless ready: @Sendable (inout State) -> Value??
    ) async -> Value? {
        let ticket = Mutex<Ticket?>(nil)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let value: Value?? = state.withLock { state in
                    if let value = ready(&state) { return value }
                    // Whoever cancels from here on finds the ticket.
                    if Task.isCancelled { return .some(nil) }
                    let place = state[keyPath: line].append(continuation)
                    ticket.withLock { $0 = place }
                    return nil
                }
                if let value { continuation.resume(returning: value) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                ticket.withLock { $0 }.flatMap { state[keyPath: line].remove($0) }
            }
            waiter?.resume(returning: nil)
        }
    }
}
