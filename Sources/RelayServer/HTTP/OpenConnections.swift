// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Synchronization

/// Counts all connections, so that a stopping relay can wait for their end.
package final class OpenConnections: Sendable {
    private let count = Atomic<Int>(0)

    package init() {}

    package var current: Int { count.load(ordering: .relaxed) }

    func opened(_ channel: any Channel) {
        count.wrappingAdd(1, ordering: .relaxed)
        channel.closeFuture.whenComplete { _ in self.count.wrappingSubtract(1, ordering: .relaxed) }
    }

    /// Waits until there are none, or the task is cancelled.
    func drained() async {
        // Polls: only the stop needs it, and open connections pay nothing for it.
        while current > 0, (try? await Task.sleep(for: .milliseconds(10))) != nil {}
    }
}
