// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The stored pairings of the anonymous endpoint. It is used on the endpoint's event loop.
final class Pairings {
    private let endpoint: EndpointContext
    private let identity: OwnIdentity
    private let publisher: Publisher
    private let peers: Peers

    init(_ endpoint: EndpointContext, identity: OwnIdentity, publisher: Publisher, peers: Peers) {
        (self.endpoint, self.identity, self.publisher, self.peers) = (endpoint, identity, publisher, peers)
    }

    /// What the other side is told of this one.
    func introduction() throws(DevicePairingError) -> PairingIntroduction {
        do {
            return PairingIntroduction(record: try identity.currentRecord().encoded, registrations: try publisher.registrations())
        } catch {
            throw DevicePairingError(.storageFailed, "this device's keys cannot be read: \(error)", cause: error)
        }
    }

    /// Stores an endpoint that has proved the code or the secret.
    func pair(with peer: EndpointID, _ introduction: PairingIntroduction) async throws(DevicePairingError) -> PairedDevice {
        guard let record = try? Signed<EndpointRecord>(verifying: introduction.record).payload, record.endpointID == peer,
            record.account == endpoint.account.id, record.linkKey != nil
        else { throw DevicePairingError(PairingError.invalidMessage) }
        let (now, most, registrations) = (endpoint.loop.wallTime, Advertisement.maximumPeers, introduction.registrations)
        let isStored: Bool
        do {
            isStored = try await endpoint.journal.write { transaction in
                guard try transaction.pins().count(where: { $0.endpoint != peer }) < most else { return false }
                // What an earlier pairing has stored may be newer, if the other device has lost its state since.
                _ = try transaction.removePin(of: peer)
                try transaction.store(.init(endpoint: peer, record: introduction.record, pinned: now))
                try transaction.storeRegistrations(registrations, of: peer)
                return true
            }
        } catch {
            throw DevicePairingError(.storageFailed, "the pairing cannot be stored: \(error)", cause: error)
        }
        guard isStored else {
            throw DevicePairingError(.limitExceeded, "this device has \(most) pairings already; end one first")
        }
        peers.readPairings()
        return PairedDevice(record)
    }

    /// Ends a pairing.
    /// - Returns: Whether there was one.
    func unpair(_ peer: EndpointID) async throws(DevicePairingError) -> Bool {
        do {
            let isRemoved = try await endpoint.journal.write { try $0.removePin(of: peer) }
            peers.readPairings()
            return isRemoved
        } catch {
            throw DevicePairingError(.storageFailed, "the end of the pairing cannot be stored: \(error)", cause: error)
        }
    }
}
