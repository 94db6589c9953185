// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Synchronization

/// Counts connections of any kind, so that a relay that stops can let them end.
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
        // Looked at now and then, at the end only: that costs running connections nothing.
        while current > 0, (try? await Task.sleep(for: .milliseconds(10))) != nil {}
    }
}
