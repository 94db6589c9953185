// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Counts how requests have come since the start, so that `relayd doctor` sees what becomes of its own.
package final class ForwardingCounts: Sendable {
    private let named = Atomic(0)
    private let unnamed = Atomic(0)
    private let untrusted = Mutex<(count: Int, last: IPAddress?)>((0, nil))

    /// A request of a trusted proxy.
    /// - Parameter fields: Its fields `X-Forwarded-For`.
    func note(trusted fields: [String]) {
        if fields.isEmpty { unnamed.wrappingAdd(1, ordering: .relaxed) } else { named.wrappingAdd(1, ordering: .relaxed) }
    }

    /// A request of another address. Clients of the Internet may invent the field; a proxy is on this machine, or in its network.
    func note(untrusted peer: IPAddress?, _ fields: () -> [String]) {
        guard let peer, !peer.isPublic, !fields().isEmpty else { return }
        untrusted.withLock { $0 = ($0.count &+ 1, peer) }
    }

    package var counts: AdminForwarding {
        let (count, last) = untrusted.withLock { $0 }
        return AdminForwarding(
            named: named.load(ordering: .relaxed),
            unnamed: unnamed.load(ordering: .relaxed),
            untrusted: count,
            lastUntrusted: last.map { "\($0)" }
        )
    }
}
