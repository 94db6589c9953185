// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What was stored a moment ago and is about to be used, so that it need not be read again. It holds a megabyte; what finds no room is
/// read from the journal.
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

    /// Takes it out, if it is there.
    mutating func take(_ key: Key) -> Value? {
        guard let entry = values.removeValue(forKey: key) else { return nil }
        bytes -= entry.bytes
        return entry.value
    }
}
