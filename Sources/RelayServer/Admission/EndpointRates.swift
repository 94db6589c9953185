// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
import Synchronization

/// The request rates of endpoints. All channels share it, so an endpoint gains nothing by several channels or by reconnecting.
package final class EndpointRates: Sendable {
    private struct Key: Hashable {
        var endpoint: EndpointID
        var limit: Limit
    }

    /// Each message takes a rate, so the endpoints are divided among several locks.
    private final class Shard: Sendable {
        let limiter = Mutex(KeyedLimiter<Key>())
    }

    private let limits: Limits
    private let shards = (0..<16).map { _ in Shard() }

    package init(limits: Limits) { self.limits = limits }

    /// Counts one request of a kind.
    /// - Returns: `nil` if it is allowed, otherwise the time to wait.
    package func take(_ limit: Limit, of endpoint: EndpointID, uptime: Milliseconds) -> Milliseconds? {
        let shard = shards[Int(UInt(bitPattern: endpoint.hashValue) % UInt(shards.count))]
        let rate = EventRate(perSecond: limits[limit])
        return shard.limiter.withLock { $0.take(Key(endpoint: endpoint, limit: limit), rate, now: uptime) }
    }
}
