// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What waits for its turn, first come first served, and may leave before it. Memory is that of who waits: those who left
/// leave nothing behind, however often a peer makes them come and go.
package struct WaitingLine<Element: Sendable>: Sendable {
    /// A place in the line.
    package typealias Ticket = UInt64

    private var elements: [Ticket: Element] = [:]
    private var firstTicket: Ticket = 0
    private var nextTicket: Ticket = 0

    package init() {}

    package var isEmpty: Bool { elements.isEmpty }
    package var count: Int { elements.count }

    package mutating func append(_ element: Element) -> Ticket {
        defer { nextTicket += 1 }
        if elements.isEmpty { firstTicket = nextTicket }
        elements[nextTicket] = element
        return nextTicket
    }

    /// Whose turn it is.
    package var first: (ticket: Ticket, element: Element)? {
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
    package mutating func remove(_ ticket: Ticket) -> Element? {
        elements.removeValue(forKey: ticket)
    }

    /// Whose turn it is, out of the line.
    package mutating func popFirst() -> Element? {
        first.flatMap { remove($0.ticket) }
    }
}
