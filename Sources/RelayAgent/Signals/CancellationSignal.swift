// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// A signal such as Ctrl-C during a wait for something that continues without this process. The user sees a note before the process ends.
final class CancellationSignal: Sendable {
    private let first = Mutex<Int32?>(nil)

    /// The number of the signal that arrived.
    var number: Int32? { first.withLock { $0 } }
    var isThere: Bool { number != nil }

    /// What the command fails with after the signal.
    func failure(_ failure: AgentError = AgentError(CancellationError())) -> AgentError {
        var failure = failure
        failure.signal = number
        return failure
    }

    /// Runs a closure whose task a signal cancels.
    /// - Parameter failure: What the command fails with after the signal, from the closure's error.
    static func cancelling<Result: Sendable>(
        failingWith failure: (any Error) -> AgentError = { _ in AgentError(CancellationError()) },
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let interruption = CancellationSignal()
        do {
            return try await interruption.cancelling(body)
        } catch {
            throw interruption.isThere ? interruption.failure(failure(error)) : error
        }
    }

    /// Runs a closure. A signal cancels its task; a second one ends the process at once.
    func cancelling<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
        let stop = StopSignal()
        let task = Task { try await body() }  // Owner: this function waits for it
        let watching = Task {  // Owner: this function cancels it
            guard let number = await stop.arrived(), !Task.isCancelled else { return }
            first.withLock { $0 = number }
            task.cancel()
        }
        defer {
            stop.end()
            watching.cancel()
        }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }
}
