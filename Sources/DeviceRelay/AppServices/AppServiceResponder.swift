// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTracing
import Synchronization

/// Answers a connection's requests with a handler. It uses a few tasks, and each of them handles one request after the other, because a new
/// task for each request costs more than all other work on a small request. One task always waits for a request, unless the maximum of
/// tasks is busy.
final class AppServiceResponder: Sendable {
    typealias Handler = @Sendable (AppServiceRequest) async throws -> ValueSet

    /// The maximum number of tasks that wait for a request. Further tasks end.
    fileprivate static let idleTasks = 16
    /// The number of requests that a task answers before it yields to other tasks of the app.
    private static let requestsPerYield = 32

    private struct State {
        var tasks: [Int: Task<Void, Never>] = [:]
        var lastID = 0
        /// The number of tasks that wait for a request.
        var idleCount = 0
        /// Whether the connection is closed, or the task of `run` is cancelled.
        var isOver = false
        /// The continuation of `run`.
        var waiter: CheckedContinuation<Void, Never>?

        /// Returns whether a task that has answered a request waits for another one.
        mutating func becomeIdle() -> Bool {
            guard idleCount < AppServiceResponder.idleTasks else { return false }
            idleCount += 1
            return true
        }
    }

    private let inbox: AppServiceInbox
    private let limiter: HandlerLimiter
    private let handler: Handler
    private let maximum: Int
    private let trace: TraceContext?
    private let state = Mutex(State())

    /// - Parameter trace: The span of which the handled requests are part, if the connection is traced.
    init(
        _ inbox: AppServiceInbox,
        _ limiter: HandlerLimiter,
        concurrently maximum: Int,
        trace: TraceContext? = nil,
        _ handler: @escaping Handler
    ) {
        self.inbox = inbox
        self.limiter = limiter
        self.maximum = max(1, maximum)
        self.trace = trace
        self.handler = handler
        limiter.raise(to: self.maximum)
    }

    /// Returns when the connection is closed, or the task is cancelled, and all handlers have returned.
    func run() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    startTask(&state)
                    if !state.tasks.isEmpty { state.waiter = continuation }
                    return state.tasks.isEmpty
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            finish()
        }
    }

    /// Cancels all tasks, and starts no others.
    private func finish() {
        let tasks = state.withLock { state in
            state.isOver = true
            return state.tasks
        }
        for task in tasks.values { task.cancel() }
    }

    /// Starts a task if no task waits for a request.
    private func startTask(_ state: inout State) {
        guard state.idleCount == 0, state.tasks.count < maximum, !state.isOver else { return }
        state.idleCount = 1
        state.lastID += 1
        let id = state.lastID
        state.tasks[id] = Task { await answerRequests(id) }  // Owner: the responder cancels it
    }

    private func answerRequests(_ id: Int) async {
        let cancel: @Sendable () -> Void = { [self] in state.withLock { $0.tasks[id] }?.cancel() }
        var count = 0
        while true {
            // Usually a request is present. The synchronous call avoids the cost of an asynchronous one.
            var exchange = inbox.waiting()
            if exchange == nil { exchange = await inbox.next() }
            guard let exchange else { break }
            state.withLock { state in
                state.idleCount -= 1
                startTask(&state)
            }
            let isUncancelled = await handle(exchange, onCancel: cancel)
            // A task that was cancelled for one request must not handle another.
            let goesOn = isUncancelled && !Task.isCancelled && state.withLock { $0.becomeIdle() }
            guard goesOn else { return leave(id) }
            count += 1
            if count % Self.requestsPerYield == 0 { await Task.yield() }
        }
        finish()
        leave(id)
    }

    /// Waits for a handler slot and for memory, then runs the handler for a request.
    /// - Returns: Whether the task may take another request: it was not cancelled for this request, and will not be.
    private func handle(_ exchange: any AppServiceExchange, onCancel cancel: @escaping @Sendable () -> Void) async -> Bool {
        var mayRun = limiter.acquireAtOnce()
        if !mayRun { mayRun = await limiter.acquire() }
        guard mayRun else {
            inbox.putBack(exchange)
            return false
        }
        defer { limiter.release() }
        var taken = exchange.takeMessage(onCancel: cancel)
        if case .needsMemory = taken {
            if await exchange.reserveMemory() {
                taken = exchange.takeMessage(onCancel: cancel)
            } else if Task.isCancelled {
                // The request stays in the inbox.
                inbox.putBack(exchange)
            }
        }
        guard case .message(let message) = taken else { return true }
        let request = AppServiceRequest(message: message, exchange: exchange)
        let answer =
            if let trace {
                await Trace.span("handle call", .server, of: trace) { await self.answer(to: request) }
            } else {
                await self.answer(to: request)
            }
        // The request must live until here: its `deinit` answers with a failure.
        switch withExtendedLifetime(request, { exchange.complete(answer) }) {
        case .answered: return true
        case .cancelled: return false
        case .needsMemory:
            if case .message(let message) = answer { await exchange.sendCompleted(message) }
            return true
        }
    }

    private func answer(to request: AppServiceRequest) async -> HandlerAnswer {
        do {
            return .message(try await handler(request))
        } catch let error as AppServiceError {
            return .failure(error, isDecision: true)
        } catch {
            return .failure(AppServiceError(.failure, message: "the service failed"), isDecision: false)
        }
    }

    private func leave(_ id: Int) {
        let waiter: CheckedContinuation<Void, Never>? = state.withLock { state in
            state.tasks[id] = nil
            startTask(&state)
            return state.tasks.isEmpty ? state.waiter.take() : nil
        }
        waiter?.resume()
    }
}

/// Limits how many handlers of one service run at once for one session, over all its connections. No budget counts the memory of their
/// results, so the number of handlers must not grow with the number of connections that a peer opens.
final class HandlerLimiter: Sendable {
    /// The limit, unless the service's app asks for more.
    static let defaultLimit = 32

    private struct State {
        var limit = defaultLimit
        var running = 0
        var waiters = RemovableQueue<OneShot<Bool>>()

        mutating func acquire() -> Bool {
            guard running < limit else { return false }
            running += 1
            return true
        }

        /// Starts the first waiter if the limit permits.
        mutating func next() -> OneShot<Bool>? {
            guard running < limit, let waiter = waiters.popFirst() else { return nil }
            running += 1
            return waiter
        }
    }

    private let state = Mutex(State())

    /// Raises the limit to the number that an app requests for one connection.
    func raise(to limit: Int) {
        let waiters = state.withLock { state in
            state.limit = max(state.limit, limit)
            var waiters: [OneShot<Bool>] = []
            while let waiter = state.next() { waiters.append(waiter) }
            return waiters
        }
        for waiter in waiters { waiter.settle(true) }
    }

    /// Takes a slot without waiting. If it returns true, the caller must call `release`.
    func acquireAtOnce() -> Bool { state.withLock { $0.acquire() } }

    /// Waits for a slot. If it returns true, the caller must call `release`.
    /// - Returns: False if the task is cancelled before.
    func acquire() async -> Bool {
        let waiter = OneShot<Bool>()
        let ticket: UInt64? = state.withLock { $0.acquire() ? nil : $0.waiters.append(waiter) }
        guard let ticket else { return true }
        if await waiter.wait() != nil { return true }
        let hasLeft = state.withLock { $0.waiters.remove(ticket) != nil }
        if !hasLeft { release() }
        return false
    }

    /// Returns a slot after a handler ended.
    func release() {
        let waiter = state.withLock { state in
            state.running -= 1
            return state.next()
        }
        waiter?.settle(true)
    }

    /// The limiters of a session. A limiter lives as long as a connection or a running handler of its service, so a handler counts even
    /// after its connection has closed.
    struct Table {
        private struct Key: Hashable {
            let info: AppServiceInfo
            let isOffered: Bool
        }

        private struct Entry {
            weak var limiter: HandlerLimiter?
        }

        private var entries: [Key: Entry] = [:]

        /// - Parameter isOffered: Whether the peer opened the connection.
        mutating func limiter(for info: AppServiceInfo, isOffered: Bool) -> HandlerLimiter {
            let key = Key(info: info, isOffered: isOffered)
            if let limiter = entries[key]?.limiter { return limiter }
            // A peer may use any service name, so unused entries are removed.
            entries = entries.filter { $0.value.limiter != nil }
            let limiter = HandlerLimiter()
            entries[key] = Entry(limiter: limiter)
            return limiter
        }
    }
}
