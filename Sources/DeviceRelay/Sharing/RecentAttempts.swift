// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// One attempt of a device to send something, over as many connections as it takes.
struct ShareAttempt: Hashable, Sendable {
    let sender: EndpointID
    /// Chosen by the sender.
    let id: [UInt8]
    /// Of what is offered: who has accepted one content has not accepted another one with the same id.
    let content: Digest256
}

/// What is remembered of the latest attempts. The oldest ones go first: those of a device with too many, then those of all.
struct RecentAttempts<Value> {
    static var ofADevice: Int { 64 }
    static var ofAll: Int { 256 }
    /// The names and files that all values list. The latest value is kept in any case.
    static var items: Int { 262_144 }

    /// Oldest first.
    private var entries: [(attempt: ShareAttempt, value: Value, items: Int)] = []

    subscript(attempt: ShareAttempt) -> Value? { entries.last { $0.attempt == attempt }?.value }

    /// - Parameter items: What the value lists.
    mutating func add(_ value: Value, of attempt: ShareAttempt, items: Int = 0) {
        entries.removeAll { $0.attempt == attempt }
        entries.append((attempt, value, items))
        if entries.count(where: { $0.attempt.sender == attempt.sender }) > Self.ofADevice,
            let oldest = entries.firstIndex(where: { $0.attempt.sender == attempt.sender })
        {
            entries.remove(at: oldest)
        }
        while entries.count > Self.ofAll || (entries.count > 1 && entries.reduce(0, { $0 + $1.items }) > Self.items) {
            entries.removeFirst()
        }
    }

    var count: Int { entries.count }
}
