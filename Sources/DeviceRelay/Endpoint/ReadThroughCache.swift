// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Keeps values that were just stored and are needed soon, to avoid reading them again. It holds 1 MiB; other values are read from the
/// journal.
struct ReadThroughCache<Key: Hashable & Sendable, Value: Sendable> {
    static var maximumBytes: Int { 1 << 20 }

    private var values: [Key: (value: Value, bytes: Int)] = [:]
    private var bytes = 0

    mutating func keep(_ value: Value, for key: Key, bytes: Int) {
        _ = take(key)
        guard bytes <= Self.maximumBytes - self.bytes else { return }
        values[key] = (value, bytes)
        self.bytes += bytes
    }

    /// Removes and returns the value, if it is present.
    mutating func take(_ key: Key) -> Value? {
        guard let entry = values.removeValue(forKey: key) else { return nil }
        bytes -= entry.bytes
        return entry.value
    }
}
