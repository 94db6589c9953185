// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// What has come for a connection: requests that the app has not taken, and at last the connection's end.
///
/// It holds what its carrier puts in, which bounds it.
package final class AppServiceInbox: Sendable {
    package typealias Ticket = UInt64
    private typealias Waiter = CheckedContinuation<(any AppServiceExchange)?, Never>

    private struct State {
        var requests = WaitingLine<any AppServiceExchange>()
        var waiters = WaitingLine<Waiter>()
        var isClosed = false
    }

    private let state = Mutex(State())
    /// How the connection was closed.
    let closure = OneShot<AppServiceClosure>()

    package init() {}

    /// Adds a request.
    /// - Returns: What takes it back; `nil` if somebody waited for it, and has it.
    package func deliver(_ exchange: any AppServiceExchange) -> Ticket? {
        let (ticket, waiter): (Ticket?, Waiter?) = state.withLock { state in
            guard let waiter = state.waiters.popFirst() else { return (state.requests.append(exchange), nil) }
            return (nil, waiter)
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
        var waiters = state.withLock { state in
            defer { state = State(isClosed: true) }
            return state.waiters
        }
        self.closure.settle(closure)
        while let waiter = waiters.popFirst() { waiter.resume(returning: nil) }
    }

    /// The next request; `nil` when the connection is closed, or the task is cancelled.
    func next() async -> (any AppServiceExchange)? {
        // Mostly there is one, and nothing to wait for.
        if !Task.isCancelled, let exchange = state.withLock({ $0.requests.popFirst() }) { return exchange }
        let ticket = Mutex<Ticket?>(nil)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (exchange, isWaiting): ((any AppServiceExchange)?, Bool) = state.withLock { state in
                    if let exchange = state.requests.popFirst() { return (exchange, false) }
                    // Whoever cancels from here on finds the ticket.
                    if state.isClosed || Task.isCancelled { return (nil, false) }
                    let place = state.waiters.append(continuation)
                    ticket.withLock { $0 = place }
                    return (nil, true)
                }
                if !isWaiting { continuation.resume(returning: exchange) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                ticket.withLock { $0 }.flatMap { state.waiters.remove($0) }
            }
            waiter?.resume(returning: nil)
        }
    }
}
