// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The deadlines of pending requests: a binary heap. Most requests end before their deadline. Their entries stay until they are the
/// majority, so ending a request costs nothing here.
struct DeadlineQueue {
    private struct Entry {
        let time: Duration
        let token: UInt64
    }

    private var heap: [Entry] = []

    /// The number of entries, including those of ended requests.
    var count: Int { heap.count }

    /// The earliest time.
    var next: Duration? { heap.first?.time }

    mutating func add(_ token: UInt64, at time: Duration) {
        heap.append(Entry(time: time, token: token))
        var index = heap.count - 1
        while index > 0, heap[index].time < heap[(index - 1) / 2].time {
            heap.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// Removes one entry whose deadline has passed.
    mutating func popDue(at now: Duration) -> UInt64? {
        guard let first = heap.first, first.time <= now else { return nil }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        sink(0)
        return first.token
    }

    /// Removes the entries of ended requests, if they are the majority.
    mutating func prune(liveCount: Int, isLive: (UInt64) -> Bool) {
        guard heap.count > 2 * liveCount + 64 else { return }
        heap.removeAll { !isLive($0.token) }
        for index in stride(from: heap.count / 2 - 1, through: 0, by: -1) { sink(index) }
    }

    private mutating func sink(_ start: Int) {
        var index = start
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2] where child < heap.count && heap[child].time < heap[least].time { least = child }
            guard least != index else { return }
            heap.swapAt(index, least)
            index = least
        }
    }
}
