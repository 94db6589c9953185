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

/// Fixed-window rate limits by name. A window starts with a name's first event. Memory is bounded:
/// only the names with the latest events are kept, and all other names start with an empty window.
struct WindowCounts {
    private struct Count {
        var began: Milliseconds
        var events: Int
    }

    private let perWindow: Int
    private let capacity: Int
    private let window: Int64
    /// A full generation replaces the older one.
    private var recent: [String: Count] = [:]
    private var older: [String: Count] = [:]

    /// - Parameter window: Its length in milliseconds.
    init(perWindow: Int, capacity: Int, window: Int64 = 60_000) {
        self.perWindow = perWindow
        self.capacity = capacity
        self.window = window
    }

    /// The number of names in memory.
    var count: Int { recent.count + older.count }

    /// Counts an event.
    /// - Returns: `nil` if the event is within the limit; otherwise the time until the window ends.
    mutating func add(_ name: String, now: Milliseconds) -> Milliseconds? {
        var count = recent[name] ?? older[name] ?? Count(began: now, events: 0)
        if now < count.began || now.count - count.began.count >= window { count = Count(began: now, events: 0) }
        if count.events >= perWindow { return Milliseconds(clamping: count.began.count + window - now.count) }
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
