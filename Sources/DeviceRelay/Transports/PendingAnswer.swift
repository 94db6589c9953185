// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Synchronization

/// Why a request got no answer.
package enum RequestFailure: Error, Hashable, Sendable {
    case failed(DialFailure)
    case cancelled
}

/// A pending request. It ends once: by an answer, a failure, the timeout, or the cancellation of the waiting task.
final class PendingAnswer<Value: Sendable>: Sendable {
    private let promise: EventLoopPromise<Value>
    private struct State {
        /// The closures to run at the end; `nil` after the end.
        var endings: [@Sendable () -> Void]? = []
        var ignoresCancellation = false
    }

    private let state = Mutex(State())

    /// - Parameter timeout: In milliseconds.
    init(on loop: any EventLoop, timeout: Int64) {
        promise = loop.makePromise()
        let timer = loop.scheduleTask(in: .milliseconds(timeout)) { self.end(.failure(.failed(.timedOut))) }
        whenEnded { timer.cancel() }
    }

    /// - Returns: False if the request has ended. Then the body is not called.
    @discardableResult
    func whenEnded(_ body: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            state.endings?.append(body)
            return state.endings != nil
        }
    }

    /// From now on the cancellation of the waiting task has no effect.
    /// - Returns: False if the request has ended.
    func ignoreCancellation() -> Bool {
        state.withLock { state in
            state.ignoresCancellation = true
            return state.endings != nil
        }
    }

    /// Ends the request. Only the first call has an effect.
    func end(_ result: Result<Value, RequestFailure>) {
        finish(result) { _ in true }
    }

    private func finish(_ result: Result<Value, RequestFailure>, if mayEnd: (State) -> Bool) {
        let endings: [@Sendable () -> Void]? = state.withLock { state in
            guard mayEnd(state) else { return nil }
            defer { state.endings = nil }
            return state.endings
        }
        guard let endings else { return }
        for body in endings { body() }
        promise.completeWith(result.mapError { $0 })
    }

    func value() async throws(RequestFailure) -> Value {
        do {
            return try await withTaskCancellationHandler {
                try await promise.futureResult.get()
            } onCancel: {
                finish(.failure(.cancelled)) { !$0.ignoresCancellation }
            }
        } catch {
            throw error as? RequestFailure ?? .failed(DialFailure(onChannel: error))
        }
    }
}
