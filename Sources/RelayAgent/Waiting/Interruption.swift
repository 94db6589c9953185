// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// Ctrl-C while something is waited for that goes on by itself: the person is told so before the process ends.
final class Interruption: Sendable {
    private let hasArrived = Mutex(false)

    /// Whether SIGINT or SIGTERM came.
    var isThere: Bool { hasArrived.withLock { $0 } }

    /// Runs a closure, whose task is cancelled by SIGINT or SIGTERM. A second signal ends the process at once.
    func cancelling<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
        let stop = await StopSignal()
        let task = Task { try await body() }
        let watching = Task {
            await stop.arrived()
            guard !Task.isCancelled else { return }
            hasArrived.withLock { $0 = true }
            task.cancel()
        }
        defer { watching.cancel() }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }
}
