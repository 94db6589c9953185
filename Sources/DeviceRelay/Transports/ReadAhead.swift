// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Bounds the received messages whose work is not finished: at the limit, reading stops until that work is done. So a relay that sends faster
/// than this device stores, or while its disk does not answer, fills no memory. The bound holds for all connections together.
struct ReadAhead: Hashable {
    /// The bytes of messages that may be unfinished. One read of the network can exceed it.
    static let limit = 4 << 20
    /// What a small message may take in memory beside its bytes.
    static let overhead = 512

    /// The bytes of the messages that may not be finished.
    private(set) var bytes = 0
    private(set) var isFull = false

    /// A message was received.
    /// - Returns: Whether the owner must stop reading, wait until the work of all messages is done, and then call `finished` with `bytes`.
    mutating func received(bytes count: Int) -> Bool {
        bytes += count + Self.overhead
        guard !isFull, bytes >= Self.limit else { return false }
        isFull = true
        return true
    }

    /// The work of the messages that had come when the wait began is done.
    /// - Returns: Whether the owner reads again. If not, so many messages came meanwhile that it must wait again.
    mutating func finished(bytes count: Int) -> Bool {
        bytes = max(0, bytes - count)
        isFull = bytes >= Self.limit
        return !isFull
    }
}
