// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Synchronization

/// Counts all connections, so that a stopping relay can wait for their end.
package final class OpenConnections: Sendable {
    private let count = Atomic<Int>(0)
    /// An element each time that the number becomes large. For one reader.
    let crowds: AsyncStream<Void>
    private let crowd: AsyncStream<Void>.Continuation

    package init() { (crowds, crowd) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    package var current: Int { count.load(ordering: .relaxed) }

    func opened(_ channel: any Channel) {
        let count = self.count.wrappingAdd(1, ordering: .relaxed).newValue
        if count == AdmissionPolicy.standard.connectionsBeforeTrim { crowd.yield() }
        channel.closeFuture.whenComplete { _ in self.count.wrappingSubtract(1, ordering: .relaxed) }
    }

    /// Waits until there are none, or the task is cancelled.
    func drained() async {
        // Polls: only the stop needs it, and open connections pay nothing for it.
        while current > 0, (try? await Task.sleep(for: .milliseconds(10))) != nil {}
    }
}
