// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// The received requests of a connection that the app has not taken yet, and the end of the connection.
///
/// Its size is not limited here: the carrier limits it.
package final class AppServiceInbox: Sendable {
    typealias Waiter = CheckedContinuation<(any AppServiceExchange)?, Never>

    private struct State {
        var requests = CircularBuffer<any AppServiceExchange>()
        /// An upper bound of the number of cancelled requests in `requests`.
        var cancelledCount = 0
        var waiters: [(ticket: UInt64, waiter: Waiter)] = []
        var lastTicket: UInt64 = 0
        var isClosed = false
    }

    private let state = Mutex(State())
    /// Settled with the way in which the connection was closed.
    let closure = OneShot<AppServiceClosure>()

    package init() {}

    /// Adds a request.
    package func deliver(_ exchange: any AppServiceExchange) { add(exchange) { $0.append(exchange) } }

    /// Returns a taken request to the front of the queue.
    func putBack(_ exchange: any AppServiceExchange) { add(exchange) { $0.prepend(exchange) } }

    private func add(_ exchange: any AppServiceExchange, _ insert: (inout CircularBuffer<any AppServiceExchange>) -> Void) {
        let waiter: Waiter? = state.withLock { state in
            if let (_, waiter) = state.waiters.popLast() { return waiter }
            if !state.isClosed { insert(&state.requests) }
            return nil
        }
        waiter?.resume(returning: exchange)
    }

    /// Records a cancelled request. Cancelled requests are removed once they may be more than half of the queue, so that a peer cannot fill
    /// memory by sending and cancelling requests.
    package func requestWasCancelled() {
        state.withLock { state in
            state.cancelledCount += 1
            guard state.cancelledCount > state.requests.count / 2 else { return }
            state.requests.removeAll { $0.isCancelled }
            state.cancelledCount = 0
        }
    }

    /// Closes the connection, and drops the requests that were not taken. The first closure stays.
    package func close(_ closure: AppServiceClosure) {
        let waiters = state.withLock { state in
            defer { state = State(isClosed: true) }
            return state.waiters
        }
        self.closure.settle(closure)
        for (_, waiter) in waiters { waiter.resume(returning: nil) }
    }

    /// Returns the next request without waiting. `nil` if there is none, or the task is cancelled.
    func waiting() -> (any AppServiceExchange)? {
        Task.isCancelled ? nil : state.withLock { $0.requests.popFirst() }
    }

    /// Waits for the next request. `nil` when the connection is closed, or the task is cancelled.
    func next() async -> (any AppServiceExchange)? {
        if let exchange = waiting() { return exchange }
        let ticket = state.withLock { state in
            state.lastTicket += 1
            return state.lastTicket
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (exchange, isWaiting): ((any AppServiceExchange)?, Bool) = state.withLock { state in
                    // A cancellation after this check finds the ticket in `waiters`.
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
