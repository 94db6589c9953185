// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The announced messages of one kind that a session receives. They get their grants in order, each for the whole length, within a budget.
///
/// Requests and responses have separate budgets. A request may wait for a handler that itself waits for a response. With a common budget
/// this could deadlock.
struct SessionAssembly: Sendable {
    struct Reservation {
        let bytes: Int
        let ticket: RemovableQueue<SessionConnection.Announcement>.Ticket
    }

    let limit: Int
    /// Announced bodies that wait for a grant, in order.
    var announcements = RemovableQueue<SessionConnection.Announcement>()
    /// The bytes that the owner has to reserve. The body may no longer exist when they are reserved.
    private(set) var reservation: Reservation?
    /// Bytes of announced messages, from the reservation until the app has taken the message.
    private(set) var bytes = 0

    init(limit: Int) { self.limit = limit }

    /// The number of bytes to reserve for the first waiting body, if the budget has room for it.
    mutating func reserveNext() -> Int? {
        guard reservation == nil, let (ticket, next) = announcements.first, next.length <= limit - bytes else { return nil }
        bytes += next.length
        reservation = Reservation(bytes: next.length, ticket: ticket)
        return next.length
    }

    /// Takes the pending reservation when its bytes are reserved.
    mutating func takeReservation() -> Reservation? { reservation.take() }

    mutating func release(_ count: Int) { bytes -= count }
}
