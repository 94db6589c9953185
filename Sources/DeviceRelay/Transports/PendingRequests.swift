// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Requests that wait for their answers, with the times when they were sent.
struct PendingRequests: Hashable {
    private var times: [RequestRef: Int64] = [:]
    /// In the order of sending. Answered requests may remain until they are removed in a batch.
    private var order: [RequestRef] = []

    var count: Int { times.count }

    /// When the oldest pending request was sent.
    var oldest: Int64? { order.first { times[$0] != nil }.flatMap { times[$0] } }

    mutating func insert(_ ref: RequestRef, now: Int64) {
        times[ref] = now
        order.append(ref)
    }

    mutating func remove(_ ref: RequestRef) -> Bool {
        guard times.removeValue(forKey: ref) != nil else { return false }
        // Answered requests are removed in batches, so that a removal is cheap on average and the array stays small.
        if order.count > 2 * times.count + 32 || order.first == ref { order.removeAll { times[$0] == nil } }
        return true
    }

    mutating func removeAll() -> [RequestRef] {
        defer { self = PendingRequests() }
        return times.keys.sorted()
    }
}
