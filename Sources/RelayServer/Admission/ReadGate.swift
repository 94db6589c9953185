// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Holds the reads of a connection back, without I/O. It remembers that a read, or the end of the input, waits.
struct ReadGate: Hashable {
    /// Why nothing is read. Each reason is set and cleared on its own.
    struct Reasons: OptionSet, Hashable {
        let rawValue: UInt8

        /// There is nowhere to put the bytes: the other side of a tunnel is missing or slow, or the core has paused the channel.
        static let receiver = Reasons(rawValue: 1)
        /// The channel has used its share of the event loop.
        static let budget = Reasons(rawValue: 2)
    }

    enum Waiting: Hashable {
        case read
        /// No read follows.
        case end
    }

    private var reasons: Reasons
    private var waiting: Waiting?

    init(heldBy reasons: Reasons = []) { self.reasons = reasons }

    var isOpen: Bool { reasons.isEmpty }
    func isHeld(by reason: Reasons) -> Bool { !reasons.isDisjoint(with: reason) }

    mutating func hold(_ reason: Reasons) { reasons.insert(reason) }
    mutating func release(_ reason: Reasons) { reasons.remove(reason) }

    /// The pipeline asks for a read, or the input has ended.
    /// - Returns: Whether it happens now. Otherwise it waits.
    mutating func passes(_ event: Waiting) -> Bool {
        guard !isOpen else { return true }
        if waiting != .end { waiting = event }
        return false
    }

    /// - Returns: What waited, if the gate is open.
    mutating func takeWaiting() -> Waiting? {
        guard isOpen else { return nil }
        defer { waiting = nil }
        return waiting
    }
}
