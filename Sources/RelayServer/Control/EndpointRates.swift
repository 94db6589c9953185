// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
import Synchronization

/// How often endpoints ask. One for all channels: an endpoint has no more of it for having several, or for coming anew.
package final class EndpointRates: Sendable {
    private struct Key: Hashable {
        var endpoint: EndpointID
        var limit: Limit
    }

    private struct State {
        var buckets: [Key: TokenBucket] = [:]
        var sweepAt = 1_024
    }

    private let limits: Limits
    private let state = Mutex(State())

    package init(limits: Limits) { self.limits = limits }

    /// Counts one request of a kind.
    /// - Returns: `nil` if there is room for it, else after how long there will be.
    package func take(_ limit: Limit, of endpoint: EndpointID, uptime: Milliseconds) -> Milliseconds? {
        state.withLock { state in
            let key = Key(endpoint: endpoint, limit: limit)
            var bucket = state.buckets[key] ?? TokenBucket(perSecond: limits[limit], uptime: uptime)
            let wait = bucket.take(uptime: uptime)
            state.buckets[key] = bucket
            // A full bucket is as good as none; looking for them now and then costs little for each request.
            if state.buckets.count >= state.sweepAt {
                state.buckets = state.buckets.filter { !$0.value.isFull(uptime: uptime) }
                state.sweepAt = max(1_024, 2 * state.buckets.count)
            }
            return wait
        }
    }
}
