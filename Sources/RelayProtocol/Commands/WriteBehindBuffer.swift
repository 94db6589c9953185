// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Values whose write is delayed, because a later event may make the write unnecessary.
package struct WriteBehindBuffer<Key: Hashable & Sendable, Value: Hashable & Sendable>: Hashable, Sendable {
    /// The delay, in milliseconds.
    package static var delay: Int64 { 250 }

    private struct Entry: Hashable {
        var value: Value
        var since: Int64
    }

    private var entries: [Key: Entry] = [:]

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }

    package subscript(key: Key) -> Value? { entries[key]?.value }

    /// A newer value keeps the time of the first one.
    package mutating func keep(_ value: Value, for key: Key, now: Int64) {
        entries[key] = Entry(value: value, since: entries[key]?.since ?? now)
    }

    package mutating func remove(_ key: Key) { entries[key] = nil }

    /// Takes the values whose delay is over.
    package mutating func takeDue(now: Int64) -> [Value] {
        let due = entries.filter { now - $0.value.since >= Self.delay }
        for key in due.keys { entries[key] = nil }
        return due.values.map(\.value)
    }

    /// Takes all values.
    package mutating func takeAll() -> [Value] {
        defer { entries = [:] }
        return entries.values.map(\.value)
    }
}
