// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What two endpoints have found out together about the local network between them.
package struct NetworkObservations: Hashable, Sendable {
    /// A packet that one side has sent to all.
    package struct Multicast: Hashable, Sendable {
        /// A side that cannot use multicast DNS hears nothing.
        package var isHeardBySender: Bool
        package var isHeardByReceiver: Bool

        package init(isHeardBySender: Bool, isHeardByReceiver: Bool) {
            (self.isHeardBySender, self.isHeardByReceiver) = (isHeardBySender, isHeardByReceiver)
        }
    }

    /// What was tried from one side to the other.
    package struct Direction: Hashable, Sendable {
        /// `nil` if it was not tried.
        package var multicast: Multicast?
        /// Of the addresses of the other side. Empty if none was tried.
        package var dials: [DialReport]

        package init(multicast: Multicast? = nil, dials: [DialReport] = []) { (self.multicast, self.dials) = (multicast, dials) }
    }

    /// Of one side.
    package struct Clock: Hashable, Sendable {
        /// The system's time, in milliseconds since 1970.
        package var time: Int64
        /// The hour of its tags, since 1970. While the relay is there, its clock corrects it.
        package var hour: UInt32

        package init(time: Int64, hour: UInt32) { (self.time, self.hour) = (time, hour) }
    }

    /// Whether one has an address in a network of the other.
    package var sharesNetwork: Bool
    /// From this device to the other one.
    package var outgoing: Direction
    package var incoming: Direction
    package var here: Clock
    package var there: Clock

    package init(sharesNetwork: Bool, outgoing: Direction, incoming: Direction, here: Clock, there: Clock) {
        (self.sharesNetwork, self.outgoing, self.incoming, self.here, self.there) = (sharesNetwork, outgoing, incoming, here, there)
    }
}
