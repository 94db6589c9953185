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
    /// The closures to run at the end; `nil` after the end.
    private let endings = Mutex<[@Sendable () -> Void]?>([])

    /// - Parameter timeout: In milliseconds.
    init(on loop: any EventLoop, timeout: Int64) {
        promise = loop.makePromise()
        let timer = loop.scheduleTask(in: .milliseconds(timeout)) { self.end(.failure(.failed(.timedOut))) }
        whenEnded { timer.cancel() }
    }

    /// - Returns: False if the request has ended. Then the body is not called.
    @discardableResult
    func whenEnded(_ body: @escaping @Sendable () -> Void) -> Bool {
        endings.withLock { endings in
            endings?.append(body)
            return endings != nil
        }
    }

    /// Ends the request. Only the first call has an effect.
    func end(_ result: Result<Value, RequestFailure>) {
        let endings = endings.withLock { endings in
            defer { endings = nil }
            return endings
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
                end(.failure(.cancelled))
            }
        } catch {
            throw error as? RequestFailure ?? .failed(DialFailure(onChannel: error))
        }
    }
}
