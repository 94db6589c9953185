// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// A signal by which the user or the service manager stops the process: SIGINT, SIGTERM, and SIGHUP when the terminal is closed. A second
/// one ends it at once.
final class StopSignal: Sendable {
    private let arrivals: AsyncStream<Int32>
    private let listener: EndingSignals.Listener

    /// Starts to listen. Signals that arrive earlier end the process.
    /// - Parameter reloads: Whether SIGHUP reloads the settings instead, see `ReloadSignal`.
    init(reloads: Bool = false) {
        let (arrivals, continuation) = AsyncStream.makeStream(of: Int32.self, bufferingPolicy: .bufferingOldest(1))
        self.arrivals = arrivals
        let signals = EndingSignals.stopping.filter { $0 != SIGHUP || !reloads }
        listener = EndingSignals.listen(to: signals, isOnce: true) { continuation.yield($0) }
    }

    deinit { end() }

    /// Listens no longer.
    func end() { EndingSignals.remove(listener) }

    /// Waits for the first signal.
    /// - Returns: Its number; `nil` after a cancellation.
    @discardableResult
    func arrived() async -> Int32? {
        for await number in arrivals { return number }
        return nil
    }

    /// Runs a closure until it returns, or a signal cancels it. What it throws then is of no account.
    func ends(_ body: @escaping @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await self.arrived() }
            group.addTask { try await body() }
            defer { group.cancelAll() }
            try await group.next()
        }
    }
}
