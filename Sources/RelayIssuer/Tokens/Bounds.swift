// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Which proofs were used, as long as they could be used again. Bounded: a full cache takes no more rather than forget one.
struct ReplayCache {
    enum Outcome: Hashable {
        case fresh
        case replayed
        case full
    }

    private let capacity: Int
    private var ends: [Digest256: Milliseconds] = [:]

    init(capacity: Int = 1 << 16) { self.capacity = capacity }

    var count: Int { ends.count }

    mutating func use(_ proof: DPoPProof, now: Milliseconds) -> Outcome {
        if let end = ends[proof.id], now < end { return .replayed }
        if ends.count >= capacity {
            ends = ends.filter { now < $0.value }
            if ends.count >= capacity { return .full }
        }
        ends[proof.id] = proof.ends
        return .fresh
    }
}

/// How often one client address may ask. Counts in windows of a minute; bounded: addresses beyond the table share one count.
struct RequestLimiter {
    static let window: Int64 = 60_000

    private let perWindow: Int
    private let capacity: Int
    private var began = Milliseconds(clamping: 0)
    private var counts: [String: Int] = [:]

    init(perWindow: Int, capacity: Int = 10_000) {
        self.perWindow = perWindow
        self.capacity = capacity
    }

    /// - Returns: `nil` if the request may go on, else how long to wait.
    mutating func admit(_ address: String, now: Milliseconds) -> Milliseconds? {
        if now < began || now.count - began.count >= RequestLimiter.window {
            began = now
            counts.removeAll(keepingCapacity: true)
        }
        let name = counts[address] != nil || counts.count < capacity ? address : ""
        let count = counts[name, default: 0]
        guard count < perWindow else { return Milliseconds(clamping: began.count + RequestLimiter.window - now.count) }
        counts[name] = count + 1
        return nil
    }
}
