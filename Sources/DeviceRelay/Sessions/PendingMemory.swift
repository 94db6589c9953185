// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The memory of the peer's pending requests that no other budget counts: a fixed amount for each request, and the small messages that no
/// handler has taken. Memory is taken in steps, so that few requests take the budget's lock.
struct PendingMemory {
    /// The fixed amount for a request: its table entries, a message of up to 1 KiB, and `freeDecodedBytes`. A larger message counts in
    /// addition.
    static let requestBytes = 7 << 10
    private static let step = 256 << 10

    private let share: SharedBudget.Share
    /// The bytes that are taken from the budget.
    private(set) var reserved = 0
    private var requests = 0
    private var messageBytes = 0

    init(share: SharedBudget.Share) { self.share = share }

    private var needed: Int { requests * Self.requestBytes + messageBytes }

    /// Adds a request, and the bytes of its message.
    /// - Returns: False if the peer has no memory left. Then nothing is added.
    mutating func add(_ bytes: Int) -> Bool {
        let missing = needed + Self.requestBytes + bytes - reserved
        if missing > 0 {
            let amount = (missing + Self.step - 1) / Self.step * Self.step
            guard share.takeAtOnce(amount) else { return false }
            reserved += amount
        }
        requests += 1
        messageBytes += bytes
        return true
    }

    /// Removes an ended request.
    mutating func removeRequest() { requests -= 1 }

    /// Removes a message that was taken or dropped.
    mutating func removeMessage(_ bytes: Int) { messageBytes -= bytes }

    /// Returns unneeded memory to the budget.
    /// - Parameter keepsStep: Whether one spare step is kept for the next requests.
    mutating func trim(keepsStep: Bool) {
        let spare = (reserved - needed) / Self.step * Self.step - (keepsStep ? Self.step : 0)
        guard spare > 0 else { return }
        share.release(spare)
        reserved -= spare
    }
}
