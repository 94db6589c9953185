// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Requests without an answer yet, by the time they were sent.
struct PendingRequests: Hashable {
    private var times: [RequestRef: Int64] = [:]
    /// In the order of sending; answered ones are skipped when they come to the front.
    private var order: [RequestRef] = []

    var count: Int { times.count }

    /// When the oldest was sent.
    var oldest: Int64? { order.first { times[$0] != nil }.flatMap { times[$0] } }

    mutating func insert(_ ref: RequestRef, now: Int64) {
        times[ref] = now
        order.append(ref)
    }

    mutating func remove(_ ref: RequestRef) -> Bool {
        guard times.removeValue(forKey: ref) != nil else { return false }
        // Now and then, so that removing costs little and nothing piles up.
        if order.count > 2 * times.count + 32 || order.first == ref { order.removeAll { times[$0] == nil } }
        return true
    }

    mutating func removeAll() -> [RequestRef] {
        defer { self = PendingRequests() }
        return times.keys.sorted()
    }
}
