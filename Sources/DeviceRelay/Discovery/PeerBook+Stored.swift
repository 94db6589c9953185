// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The endpoints as the journal has them: they are shown while the relay cannot be asked, and all that an anonymous endpoint has.
extension PeerBook {
    /// Shows the known endpoints as they were stored, because the relay cannot be asked.
    mutating func showStored(since time: Milliseconds) {
        // The relay that listed them states its limit again with the next connection.
        directory.allow(endpoints: DeviceDirectory.maximumEndpoints)
        for record in peers.known { showStored(record, since: time) }
    }

    mutating func showStored(_ record: EndpointRecord, since time: Milliseconds?, _ reason: Presence.Reason = .relayUnreachable) {
        let endpoint = record.endpointID
        guard directory[endpoint] == nil else { return }
        directory.add(
            DeviceDirectory.Endpoint(
                record: record,
                registrations: peers.verified(storedRegistrations[endpoint] ?? storedApproved[endpoint]?.registrations ?? [], of: record),
                presence: Presence(.unknown, reason, since: time),
                trust: peers.trust(in: endpoint),
                knowledge: peers.knowledge(of: endpoint) ?? .firstSeen
            )
        )
    }

    /// Replaces the endpoints of the anonymous account by the stored ones, which any process of this endpoint may have changed. They are
    /// all that there are.
    mutating func take(pairings: [Pin]) -> [Action] {
        var actions: [Action] = []
        directory.allow(endpoints: Advertisement.maximumPeers)
        let stored = Set(pairings.map(\.endpoint))
        for record in peers.pinned where !stored.contains(record.endpointID) {
            directory.remove(record.endpointID)
            peers.unpair(record.endpointID)
            storedRegistrations[record.endpointID] = nil
            actions += [.shutOut(record.endpointID), .forgetSender(record.endpointID)]
        }
        for pin in pairings where pin.endpoint != own {
            guard let record = peers.pair(pin.record, with: pin.endpoint) else { continue }
            storedRegistrations[pin.endpoint] = storedRegistrations[pin.endpoint] ?? pin.registrations
            showStored(record.payload, since: nil, .notNearby)
        }
        directory.completeEnumeration()
        refreshTrust()
        return actions
    }

    /// Stores the endpoints that are known and not pinned, as far as they differ from the stored ones. While the relay lists endpoints, a
    /// chain of vouchers may lack a link that comes next.
    mutating func approvedChanged() -> [Action] {
        guard directory.isEnumerated else { return [] }
        return Set(storedApproved.keys).union(peers.approvedEndpoints).sorted().compactMap { endpoint in
            let approved = peers.approved(endpoint)
            guard storedApproved[endpoint] != approved else { return nil }
            storedApproved[endpoint] = approved
            return .storeApproved(endpoint, approved)
        }
    }

    /// Stores the registrations of an endpoint that is pinned, if they differ from the stored ones.
    mutating func registrationsChanged(of endpoint: EndpointID) -> [Action] {
        guard peers.pin(of: endpoint) != nil else { return [] }
        let registrations = peers.registrations(of: endpoint)
        guard registrations != storedRegistrations[endpoint] ?? [] else { return [] }
        storedRegistrations[endpoint] = registrations
        return [.storeRegistrations(endpoint, registrations)]
    }
}
