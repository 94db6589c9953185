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

    private struct State {
        var buckets: [Key: TokenBucket] = [:]
        var sweepAt = 64
    }

    /// Each message takes a rate, so the endpoints are divided among several locks.
    private final class Shard: Sendable {
        let state = Mutex(State())
    }

    private let limits: Limits
    private let shards = (0..<16).map { _ in Shard() }

    package init(limits: Limits) { self.limits = limits }

    /// Counts one request of a kind.
    /// - Returns: `nil` if it is allowed, otherwise the time to wait.
    package func take(_ limit: Limit, of endpoint: EndpointID, uptime: Milliseconds) -> Milliseconds? {
        let shard = shards[Int(UInt(bitPattern: endpoint.hashValue) % UInt(shards.count))]
        return shard.state.withLock { state in
            let key = Key(endpoint: endpoint, limit: limit)
            var bucket = state.buckets[key] ?? TokenBucket(perSecond: limits[limit], uptime: uptime)
            let wait = bucket.take(uptime: uptime)
            state.buckets[key] = bucket
            // A full bucket needs no entry. The occasional sweep costs little per request.
            if state.buckets.count >= state.sweepAt {
                state.buckets = state.buckets.filter { !$0.value.isFull(uptime: uptime) }
                state.sweepAt = max(64, 2 * state.buckets.count)
            }
            return wait
        }
    }
}
