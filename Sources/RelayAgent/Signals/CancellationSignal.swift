// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// Ctrl-C during a wait for something that continues without this process. The user sees a note before the process ends.
final class CancellationSignal: Sendable {
    private let hasArrived = Mutex(false)

    /// Whether SIGINT or SIGTERM arrived.
    var isThere: Bool { hasArrived.withLock { $0 } }

    /// Runs a closure. SIGINT or SIGTERM cancels its task; a second signal ends the process at once.
    func cancelling<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
        let stop = await StopSignal()
        let task = Task { try await body() }  // Owner: this function waits for it
        let watching = Task {  // Owner: this function cancels it
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
