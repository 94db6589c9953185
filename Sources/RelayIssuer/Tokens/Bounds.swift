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

/// Counts events by name, in windows of a minute that begin with a name's first event. Bounded: only the names that were counted last are
/// remembered. Of the others nothing is known, so none of them has to wait for what came from elsewhere.
struct WindowCounts {
    static let window: Int64 = 60_000

    private struct Count {
        var began: Milliseconds
        var events: Int
    }

    private let perWindow: Int
    private let capacity: Int
    /// When this generation is full, it takes the place of the older one, which is forgotten.
    private var recent: [String: Count] = [:]
    private var older: [String: Count] = [:]

    init(perWindow: Int, capacity: Int) {
        self.perWindow = perWindow
        self.capacity = capacity
    }

    /// How many names are remembered.
    var count: Int { recent.count + older.count }

    /// Counts an event.
    /// - Returns: `nil` if the name had room for it, else how long it has none.
    mutating func add(_ name: String, now: Milliseconds) -> Milliseconds? {
        var count = recent[name] ?? older[name] ?? Count(began: now, events: 0)
        if now < count.began || now.count - count.began.count >= Self.window { count = Count(began: now, events: 0) }
        if count.events >= perWindow { return Milliseconds(clamping: count.began.count + Self.window - now.count) }
        count.events += 1
        older[name] = nil
        if recent[name] == nil, recent.count >= max(1, capacity / 2) {
            older = recent
            recent = [:]
        }
        recent[name] = count
        return nil
    }
}
