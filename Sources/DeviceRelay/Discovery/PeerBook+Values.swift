// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension PeerBook {
    enum Action: Hashable {
        /// Store that the endpoint is pinned, with this record.
        case pin(EndpointID, record: [UInt8], Voucher.VerificationLevel)
        /// Store what a pinned endpoint registers: its signed registrations, in place of the earlier ones.
        case storeRegistrations(EndpointID, [[UInt8]])
        /// Store an endpoint that is known and not pinned, in place of what was stored of it; or delete that.
        case storeApproved(EndpointID, Approved?)
        /// Store that the first enumeration is complete: from now on listed endpoints are not pinned automatically.
        case storeEnumeration
        /// Delete the stored id of the endpoint that invited this one: it was found.
        case forgetInviter
        /// Store that an endpoint is revoked, and delete its pin. If `isUnsent` is set, the revocation must also be sent to the relay.
        case storeRevocation(Signed<Revocation>, isUnsent: Bool)
        /// Close the endpoint's sessions: nothing is accepted from it any more.
        case shutOut(EndpointID)
        /// The endpoint is gone permanently: delete its lanes.
        case forgetSender(EndpointID)
        /// Give the endpoint a voucher. If an invitation is named, it is used up.
        case vouch(Signed<EndpointRecord>, invitation: Secret<[UInt8]>?)
    }

    /// The sender of a received command, or the peer of a session.
    struct Peer {
        var record: EndpointRecord
        var isNew: Bool
        var actions: [Action]
    }

    /// Thrown for an endpoint that is revoked.
    struct EndpointRevoked: Error {}

    typealias Approved = JournalTransaction.Approved

    /// A stored pin.
    struct Pin: Hashable {
        var endpoint: EndpointID
        var record: [UInt8]
        var knowledge: Voucher.VerificationLevel
        /// The signed registrations of its apps.
        var registrations: [[UInt8]] = []
    }
}
