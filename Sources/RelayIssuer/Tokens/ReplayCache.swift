// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The used proofs and challenges that are still valid. It is bounded: a full cache rejects new proofs and drops no valid one.
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

    mutating func use(_ proof: DPoPProof, now: Milliseconds) -> Outcome { use(proof.id, until: proof.ends, now: now) }

    /// - Parameter time: When it is no longer valid.
    mutating func use(_ id: Digest256, until time: Milliseconds, now: Milliseconds) -> Outcome {
        if let end = ends[id], now < end { return .replayed }
        if ends.count >= capacity {
            ends = ends.filter { now < $0.value }
            if ends.count >= capacity { return .full }
        }
        ends[id] = time
        return .fresh
    }
}
