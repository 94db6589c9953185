// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A FIFO queue whose elements can be removed by ticket. A removed element frees its memory, so a peer that adds and removes elements does
/// not make the queue grow.
///
/// Inlinable, because other modules use it on their fast paths.
package struct RemovableQueue<Element: Sendable>: Sendable {
    /// Identifies an element of the queue.
    package typealias Ticket = UInt64

    @usableFromInline var elements: [Ticket: Element] = [:]
    @usableFromInline var firstTicket: Ticket = 0
    @usableFromInline var nextTicket: Ticket = 0

    @inlinable package init() {}

    @inlinable package var isEmpty: Bool { elements.isEmpty }
    @inlinable package var count: Int { elements.count }

    @inlinable package mutating func append(_ element: Element) -> Ticket {
        defer { nextTicket += 1 }
        if elements.isEmpty { firstTicket = nextTicket }
        elements[nextTicket] = element
        return nextTicket
    }

    /// The first element.
    @inlinable package var first: (ticket: Ticket, element: Element)? {
        mutating get {
            guard !elements.isEmpty else { return nil }
            while firstTicket < nextTicket {
                if let element = elements[firstTicket] { return (firstTicket, element) }
                firstTicket += 1
            }
            return nil
        }
    }

    @discardableResult
    @inlinable package mutating func remove(_ ticket: Ticket) -> Element? {
        elements.removeValue(forKey: ticket)
    }

    /// Removes and returns the first element.
    @inlinable package mutating func popFirst() -> Element? {
        first.flatMap { remove($0.ticket) }
    }
}
