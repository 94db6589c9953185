// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// What has come for a connection: requests that the app has not taken, and at last the connection's end.
///
/// It holds what its carrier puts in, which bounds it.
package final class AppServiceInbox: Sendable {
    typealias Waiter = CheckedContinuation<(any AppServiceExchange)?, Never>

    private struct State {
        var requests = CircularBuffer<any AppServiceExchange>()
        /// At most so many of them were cancelled.
        var cancelledCount = 0
        var waiters: [(ticket: UInt64, waiter: Waiter)] = []
        var lastTicket: UInt64 = 0
        var isClosed = false
    }

    private let state = Mutex(State())
    /// How the connection was closed.
    let closure = OneShot<AppServiceClosure>()

    package init() {}

    /// Adds a request.
    package func deliver(_ exchange: any AppServiceExchange) { add(exchange) { $0.append(exchange) } }

    /// Adds a request that was taken, before the others.
    func putBack(_ exchange: any AppServiceExchange) { add(exchange) { $0.prepend(exchange) } }

    private func add(_ exchange: any AppServiceExchange, _ insert: (inout CircularBuffer<any AppServiceExchange>) -> Void) {
        let waiter: Waiter? = state.withLock { state in
            if let (_, waiter) = state.waiters.popLast() { return waiter }
            if !state.isClosed { insert(&state.requests) }
            return nil
        }
        waiter?.resume(returning: exchange)
    }

    /// A request has been cancelled. Those that the app has not taken leave when they may be as many as the others, so that who asks and
    /// cancels fills nothing.
    package func requestWasCancelled() {
        state.withLock { state in
            state.cancelledCount += 1
            guard state.cancelledCount > state.requests.count / 2 else { return }
            state.requests.removeAll { $0.isCancelled }
            state.cancelledCount = 0
        }
    }

    /// Closes the connection. What was not taken is dropped; the first reason stands.
    package func close(_ closure: AppServiceClosure) {
        let waiters = state.withLock { state in
            defer { state = State(isClosed: true) }
            return state.waiters
        }
        self.closure.settle(closure)
        for (_, waiter) in waiters { waiter.resume(returning: nil) }
    }

    /// The next request if there is one; `nil` also when the task is cancelled.
    func waiting() -> (any AppServiceExchange)? {
        Task.isCancelled ? nil : state.withLock { $0.requests.popFirst() }
    }

    /// The next request; `nil` when the connection is closed, or the task is cancelled.
    func next() async -> (any AppServiceExchange)? {
        if let exchange = waiting() { return exchange }
        let ticket = state.withLock { state in
            state.lastTicket += 1
            return state.lastTicket
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (exchange, isWaiting): ((any AppServiceExchange)?, Bool) = state.withLock { state in
                    // Whoever cancels from here on finds the ticket.
                    if state.isClosed || Task.isCancelled { return (nil, false) }
                    if let exchange = state.requests.popFirst() { return (exchange, false) }
                    state.waiters.append((ticket, continuation))
                    return (nil, true)
                }
                if !isWaiting { continuation.resume(returning: exchange) }
            }
        } onCancel: {
            let waiter: Waiter? = state.withLock { state in
                state.waiters.firstIndex { $0.ticket == ticket }.map { state.waiters.remove(at: $0).waiter }
            }
            waiter?.resume(returning: nil)
        }
    }
}
