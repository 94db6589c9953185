// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What waits for its turn, first come first served, and may leave before it. Memory is that of who waits: those who left
/// leave nothing behind, however often a peer makes them come and go.
///
/// Inlinable, since other modules have it on their hottest paths.
package struct WaitingLine<Element: Sendable>: Sendable {
    /// A place in the line.
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

    /// Whose turn it is.
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

    /// Whose turn it is, out of the line.
    @inlinable package mutating func popFirst() -> Element? {
        first.flatMap { remove($0.ticket) }
    }
}
