// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import Synchronization

/// Counts, for each address, the connections whose other side nobody knows yet, so that one address cannot take all the
/// sockets there are. A connection counts until it is welcomed as an endpoint's, or closed.
package final class StrangerCount: Sendable {
    /// From so many on, of all addresses together, each has to take less of the relay.
    package static let many = 256

    private let allowed: Int
    private let counts = Mutex<[String: Int]>([:])
    private let all = Atomic(0)

    package init(allowed: Int) { self.allowed = allowed }

    /// Lets a connection in; `nil` if its address has as many as it may.
    package func admit(_ address: SocketAddress?) -> Ticket? {
        // Connections over a Unix socket come from whoever may open it, and share a name.
        let key = Self.key(address)
        let isAdmitted = counts.withLock { counts in
            let count = counts[key, default: 0]
            guard count < allowed else { return false }
            counts[key] = count + 1
            return true
        }
        guard isAdmitted else { return nil }
        all.wrappingAdd(1, ordering: .relaxed)
        return Ticket(key: key, counter: self)
    }

    /// How many there are now.
    package var total: Int { all.load(ordering: .relaxed) }
    package var areMany: Bool { total > Self.many }

    private func leave(_ key: String) {
        all.wrappingSubtract(1, ordering: .relaxed)
        counts.withLock { counts in
            guard let count = counts[key] else { return }
            counts[key] = count > 1 ? count - 1 : nil
        }
    }

    /// An IPv6 network of 64 bits is one household's, and counts as one address.
    private static func key(_ address: SocketAddress?) -> String {
        guard let text = address?.ipAddress else { return "unix" }
        guard text.utf8.contains(UInt8(ascii: ":")), !text.utf8.contains(UInt8(ascii: ".")) else { return text }
        let halves = text.split(separator: "::", maxSplits: 1, omittingEmptySubsequences: false)
        let groups = halves.first?.split(separator: ":").prefix(4) ?? []
        // What `::` leaves out is zero; a network of which it leaves out the end is the same as one written out.
        let tail = halves.count > 1 ? halves.last?.split(separator: ":") ?? [] : []
        let missing = max(0, 8 - groups.count - tail.count)
        let all = groups.map(String.init) + Array(repeating: "0", count: halves.count > 1 ? missing : 0) + tail.map(String.init)
        return all.prefix(4).joined(separator: ":")
    }

    /// One connection's place; given back once, whoever comes first.
    package final class Ticket: Sendable {
        private let key: String
        private let counter: StrangerCount
        private let isHeld = Mutex(true)

        fileprivate init(key: String, counter: StrangerCount) {
            self.key = key
            self.counter = counter
        }

        package func release() {
            let wasHeld = isHeld.withLock { held in
                defer { held = false }
                return held
            }
            if wasHeld { counter.leave(key) }
        }
    }
}
