// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What a session holds of the peer's requests that are not done, and that no other budget counts: a fixed amount for each, and the small
/// messages that no handler has taken. It takes the memory in steps, so that few requests take the budget's lock.
struct PendingMemory {
    /// What counts for a request, beside its message: its entries in tables, a message of up to 1 KiB, and what `freeDecodedBytes` allows.
    static let requestBytes = 7 << 10
    private static let step = 256 << 10

    private let share: SharedBudget.Share
    /// Taken from the budget.
    private(set) var reserved = 0
    private var requests = 0
    private var messageBytes = 0

    init(share: SharedBudget.Share) { self.share = share }

    private var needed: Int { requests * Self.requestBytes + messageBytes }

    /// Adds a request, and so many bytes of its message.
    /// - Returns: False, and nothing is added, if the peer has no memory left.
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

    /// A request is done.
    mutating func removeRequest() { requests -= 1 }

    /// A message is taken, or dropped.
    mutating func removeMessage(_ bytes: Int) { messageBytes -= bytes }

    /// Gives back what is not needed.
    /// - Parameter keepsStep: Whether one step stays, for the next requests.
    mutating func trim(keepsStep: Bool) {
        let spare = (reserved - needed) / Self.step * Self.step - (keepsStep ? Self.step : 0)
        guard spare > 0 else { return }
        share.release(spare)
        reserved -= spare
    }
}
