// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What is stored some time later, since what happens meanwhile may make it needless.
struct Lingering<Key: Hashable & Sendable, Value: Sendable> {
    /// How long something stays, in milliseconds.
    static var time: Int64 { 250 }

    private var entries: [Key: (value: Value, since: Int64)] = [:]

    var isEmpty: Bool { entries.isEmpty }

    subscript(key: Key) -> Value? { entries[key]?.value }

    /// A newer value stays no longer than the first would have.
    mutating func keep(_ value: Value, for key: Key, now: Int64) { entries[key] = (value, entries[key]?.since ?? now) }

    mutating func remove(_ key: Key) { entries[key] = nil }

    /// What has been here for its time.
    func due(now: Int64) -> [Value] { entries.values.filter { now - $0.since >= Self.time }.map(\.value) }

    /// All there is; nothing is left.
    mutating func takeAll() -> [Value] {
        defer { entries = [:] }
        return entries.values.map(\.value)
    }

    var all: [Value] { entries.values.map(\.value) }
}
