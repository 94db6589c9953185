// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension PeerBook {
    enum Action: Hashable {
        /// Store that the endpoint is pinned, with this record.
        case pin(EndpointID, record: [UInt8], Voucher.VerificationLevel)
        /// From now on nothing is pinned because it is listed.
        case storeEnumeration
        /// The endpoint that invited this one need not be looked for any more.
        case forgetInviter
        /// Store that an endpoint is revoked, and forget its pin. If it is untold, the relay has to be told.
        case storeRevocation(Signed<Revocation>, isUntold: Bool)
        /// Nothing is taken from the endpoint: close its sessions.
        case shutOut(EndpointID)
        /// It is gone for good: its lanes need not be kept.
        case forgetSender(EndpointID)
        /// Say to the others that the endpoint belongs here, and that its invitation is used.
        case vouch(Signed<EndpointRecord>, invitation: Secret<[UInt8]>?)
    }

    /// The sender of something that came.
    struct Peer {
        var record: EndpointRecord
        var isNew: Bool
        var actions: [Action]
    }

    /// Nothing is taken from this endpoint.
    struct EndpointRevoked: Error {}

    /// A pinned endpoint, as it is stored.
    struct Pin {
        var endpoint: EndpointID
        var record: [UInt8]
        var knowledge: Voucher.VerificationLevel
    }
}
