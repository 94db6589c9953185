// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol
import Synchronization

/// A message that wants an answer. One that is dropped without is answered with `failure`.
public final class AppServiceRequest: Sendable {
    /// What the caller says.
    public let message: ValueSet
    /// When the caller stops waiting; `nil` if it did not say.
    public var deadline: ContinuousClock.Instant? { exchange.deadline }
    /// Whether the caller no longer waits.
    public var isCancelled: Bool { exchange.cancellation.isCancelled }

    private let exchange: any AppServiceExchange
    private let isAnswered = Mutex(false)

    init(message: ValueSet, exchange: any AppServiceExchange) {
        self.message = message
        self.exchange = exchange
    }

    deinit {
        if beginAnswer() {
            exchange.fail(AppServiceError(.failure, message: "the service let the request go unanswered"), isDecision: false)
        }
    }

    /// Answers, and returns when the answer has left this device.
    /// - Throws: `messageTooLarge` or `invalidMessage`, and another answer may be given; `cancelled` or `appServiceConnectionClosed` when
    ///   nobody wants an answer any more; `notSupported` when there was one.
    public func respond(_ message: ValueSet) async throws(AppServiceError) {
        guard beginAnswer() else { throw AppServiceError(.notSupported, message: "the request has its answer; answer each request once") }
        do throws(AppServiceError) {
            try await exchange.respond(message)
        } catch {
            if error.code == .messageTooLarge || error.code == .invalidMessage { isAnswered.withLock { $0 = false } }
            throw error
        }
        exchange.cancellation.finish()
    }

    /// Answers that there is no answer, with the error's code and message. Without effect after another answer.
    public func refuse(_ error: AppServiceError) { fail(error, isDecision: true) }

    /// Runs the closure when the caller no longer waits, at once if that is so already. Never after the answer.
    public func onCancel(_ body: @escaping @Sendable () -> Void) { exchange.cancellation.onCancel(body) }

    private func fail(_ error: AppServiceError, isDecision: Bool) {
        guard beginAnswer() else { return }
        exchange.cancellation.finish()
        exchange.fail(error, isDecision: isDecision)
    }

    private func beginAnswer() -> Bool {
        isAnswered.withLock { isAnswered in
            defer { isAnswered = true }
            return !isAnswered
        }
    }

    /// Answers with what the handler returns or throws.
    /// - Parameters:
    ///   - cancel: Called if the caller stops waiting before the handler is done, at any time from then on.
    /// - Returns: Whether it was not called, and will not be.
    func answer(
        with handler: @Sendable (AppServiceRequest) async throws -> ValueSet,
        onCancel cancel: @escaping @Sendable () -> Void
    ) async -> Bool {
        onCancel(cancel)
        do {
            let message = try await handler(self)
            if beginAnswer(), exchange.cancellation.finish(), !exchange.respondAtOnce(message) { await respondOrRefuse(message) }
        } catch let error as AppServiceError {
            refuse(error)
        } catch {
            fail(AppServiceError(.failure, message: "the service failed"), isDecision: false)
        }
        return exchange.cancellation.finish()
    }

    /// If the message does not go, the caller is told why.
    private func respondOrRefuse(_ message: ValueSet) async {
        do throws(AppServiceError) {
            try await exchange.respond(message)
        } catch {
            exchange.fail(error, isDecision: true)
        }
    }
}

/// The requests of a connection, until it is closed. Each is given out once: who iterates twice shares them.
public struct AppServiceRequests: AsyncSequence, Sendable {
    /// A request.
    public typealias Element = AppServiceRequest
    /// Iterating does not fail.
    public typealias Failure = Never

    let connection: AppServiceConnection

    /// See `AsyncSequence`.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(connection: connection) }

    /// See `AsyncSequence`.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let connection: AppServiceConnection

        /// The next request; `nil` when the connection is closed, or the task is cancelled.
        public mutating func next() async -> AppServiceRequest? { await connection.nextRequest() }

        /// The same.
        public mutating func next(isolation actor: isolated (any Actor)?) async -> AppServiceRequest? { await connection.nextRequest() }
    }
}
