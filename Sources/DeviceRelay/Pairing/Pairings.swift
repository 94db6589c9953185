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
        guard let record = checked(introduction, of: peer) else { throw DevicePairingError(PairingError.invalidMessage) }
        let (now, most, registrations) = (endpoint.loop.wallTime, Advertisement.maximumPeers, introduction.registrations)
        let isStored: Bool
        do {
            isStored = try await endpoint.journal.write { transaction in
                guard try transaction.pins().count(where: { $0.endpoint != peer }) < most else { return false }
                // What an earlier pairing has stored may be newer, if the other device has lost its state since.
                _ = try transaction.removePin(of: peer)
                try transaction.store(.init(endpoint: peer, record: introduction.record, pinned: now))
                try transaction.storeRegistrations(registrations, of: peer)
                return try transaction.pins().contains { $0.endpoint == peer }
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

    /// - Returns: The record, if all is signed by the endpoint, of the anonymous account, and within the limits of a relay.
    private func checked(_ introduction: PairingIntroduction, of peer: EndpointID) -> EndpointRecord? {
        var book = RecordBook(account: endpoint.account.id, limits: endpoint.settings.limits.all)
        guard let record = try? book.add(endpointRecord: introduction.record, of: peer).payload, record.linkKey != nil,
            (try? book.set(appRegistrations: introduction.registrations, of: peer)) != nil
        else { return nil }
        return record
    }

    /// - Throws: `limitExceeded` if there is no room for another pairing.
    func checkRoom() throws(DevicePairingError) {
        guard let count = try? endpoint.journal.read({ try $0.pins().count }), count >= Advertisement.maximumPeers else { return }
        throw DevicePairingError(.limitExceeded, "this device has \(count) pairings already; end one first")
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
