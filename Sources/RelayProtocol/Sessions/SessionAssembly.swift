// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The announced messages of one kind that a session receives: they get their grants in order, each for its whole length, within a budget.
///
/// Requests and responses have one each. A request may wait for handlers that wait for responses; were the responses to wait for the same
/// memory, all would wait for each other.
struct SessionAssembly: Sendable {
    struct Reservation {
        let bytes: Int
        let ticket: RemovableQueue<SessionConnection.Announcement>.Ticket
    }

    let limit: Int
    /// Bodies that the peer announced and that want a grant, in order.
    var announcements = RemovableQueue<SessionConnection.Announcement>()
    /// What the owner was asked to reserve. The body may be gone when the answer comes.
    private(set) var reservation: Reservation?
    /// Bytes of announced messages, from the reservation until the app has taken the message.
    private(set) var bytes = 0

    init(limit: Int) { self.limit = limit }

    /// What is to be reserved for the first that waits, if the budget has room.
    mutating func reserveNext() -> Int? {
        guard reservation == nil, let (ticket, next) = announcements.first, next.length <= limit - bytes else { return nil }
        bytes += next.length
        reservation = Reservation(bytes: next.length, ticket: ticket)
        return next.length
    }

    /// What was asked for is reserved.
    mutating func takeReservation() -> Reservation? { reservation.take() }

    mutating func release(_ count: Int) { bytes -= count }
}
