// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The results that the account had no room for on this connection. After a delay one of them finds out whether there is room. The others
/// follow it, one by one. So one delay serves all of them, and a full account gets no flood of results.
struct UnsettledResults: Hashable {
    /// In milliseconds.
    static let delay: Int64 = 60_000

    private var keys: [CommandKey] = []
    private var isDelayed = false

    /// - Returns: Whether a delay begins.
    mutating func add(_ key: CommandKey) -> Bool {
        if !keys.contains(key) { keys.append(key) }
        defer { isDelayed = true }
        return !isDelayed
    }

    /// The delay is over.
    /// - Returns: The result to send.
    mutating func delayEnded() -> CommandKey? {
        isDelayed = false
        return next()
    }

    /// - Returns: The next result to send, because the account has room again.
    mutating func next() -> CommandKey? { keys.isEmpty ? nil : keys.removeFirst() }

    mutating func settled(_ key: CommandKey) { keys.removeAll { $0 == key } }
}
