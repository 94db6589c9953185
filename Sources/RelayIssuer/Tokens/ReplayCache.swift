// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The used proofs and challenges that are still valid. The cache is bounded: if it is full, it rejects new entries and drops no valid one.
/// It is in memory only, so everything that was made before the cache was created counts as used: the process before this one may have seen
/// it.
struct ReplayCache {
    enum Outcome: Hashable {
        case fresh
        /// It was used, or made before the cache was created.
        case replayed
        case full
    }

    private let capacity: Int
    private var ends: [Digest256: Milliseconds] = [:]

    private let began: Milliseconds

    /// - Parameter began: The time at which the cache is created.
    init(began: Milliseconds, capacity: Int = 1 << 16) {
        self.began = began
        self.capacity = capacity
    }

    var count: Int { ends.count }

    mutating func use(_ proof: DPoPProof, now: Milliseconds) -> Outcome {
        use(proof.id, made: proof.made, until: proof.ends, now: now)
    }

    /// - Parameters:
    ///   - made: When it was made. Proofs state this in whole seconds.
    ///   - time: When it is no longer valid.
    mutating func use(_ id: Digest256, made: Milliseconds, until time: Milliseconds, now: Milliseconds) -> Outcome {
        guard made.count / 1_000 >= began.count / 1_000 else { return .replayed }
        if let end = ends[id], now < end { return .replayed }
        if ends.count >= capacity {
            ends = ends.filter { now < $0.value }
            if ends.count >= capacity { return .full }
        }
        ends[id] = time
        return .fresh
    }
}
