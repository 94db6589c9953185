// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The checked records of the account's endpoints, and which of these are known or revoked. Data of the relay without a valid signature, or
/// with an older version, is rejected.
struct PeerRecords: Sendable {
    private let own: EndpointID
    private var records: RecordBook
    private var graph: TrustGraph
    private var vouchers = VoucherChecks()

    init(
        own: EndpointID,
        account: String,
        pins: [PeerBook.Pin],
        approved: [PeerBook.Approved] = [],
        revoked: Set<EndpointID>,
        shutOut: Set<EndpointID>,
        limits: Limits
    ) {
        self.own = own
        self.records = RecordBook(account: account, limits: limits)
        self.graph = TrustGraph(
            own: own,
            pins: Dictionary(pins.map { ($0.endpoint, $0.knowledge) }) { max($0, $1) },
            revoked: revoked
        )
        // The stored records are loaded, so that the versions of records cannot decrease across restarts.
        for pin in pins where !revoked.contains(pin.endpoint) {
            guard let record = try? records.add(endpointRecord: pin.record, of: pin.endpoint) else { continue }
            graph.setSystem(record.payload.systemID, of: pin.endpoint)
        }
        for endpoint in shutOut where endpoint != own { graph.revokeByRelay(endpoint) }
        for one in approved where one.endpoint != own && !revoked.contains(one.endpoint) {
            _ = try? add(Introduction(record: Blob(one.record), vouchers: one.vouchers.map { Blob($0) }), of: one.endpoint)
        }
        // Who vouched for one may be revoked now.
        for one in approved where graph.known[one.endpoint] == nil { forget(one.endpoint) }
    }

    // MARK: Queries

    /// The newest record of an endpoint.
    subscript(_ endpoint: EndpointID) -> Signed<EndpointRecord>? { records[endpoint] }

    /// The cross-device app identity that an endpoint publishes for an app.
    func identity(ofApp appID: String, at endpoint: EndpointID) -> String? {
        records.registrations(of: endpoint).first { $0.payload.appID.utf8.elementsEqual(appID.utf8) }?.payload.identity
    }

    /// The signed registrations of an endpoint.
    func registrations(of endpoint: EndpointID) -> [[UInt8]] { records.registrations(of: endpoint).map(\.encoded) }

    /// Verifies registrations without taking them, so an older version does not matter. Those that are not valid are left out.
    func verified(_ registrations: [[UInt8]], of record: EndpointRecord) -> [AppRegistration] {
        records.verified(registrations, of: record)
    }

    /// The newest records of the pinned endpoints that are not revoked.
    var pinned: [EndpointRecord] {
        graph.pins.keys.filter { !graph.isRefused($0) }.sorted().compactMap { records[$0]?.payload }
    }

    /// The newest records of the known endpoints that are not revoked, without the own one.
    var known: [EndpointRecord] { graph.known.keys.sorted().compactMap { knownRecord(of: $0) } }

    /// The newest record of a known endpoint that is not revoked; `nil` for the own one.
    func knownRecord(of endpoint: EndpointID) -> EndpointRecord? {
        endpoint != own && graph.known[endpoint] != nil && !graph.isRefused(endpoint) ? records[endpoint]?.payload : nil
    }

    /// The endpoints that are known and not pinned.
    var approvedEndpoints: [EndpointID] { graph.known.keys.filter { $0 != own && graph.pins[$0] == nil } }

    /// Such an endpoint as it is stored.
    func approved(_ endpoint: EndpointID) -> PeerBook.Approved? {
        guard graph.pins[endpoint] == nil, knownRecord(of: endpoint) != nil, let record = records[endpoint] else { return nil }
        return PeerBook.Approved(
            endpoint: endpoint,
            record: record.encoded,
            vouchers: vouchers.introduced(endpoint).map(\.bytes),
            registrations: registrations(of: endpoint)
        )
    }

    /// The verification level of an endpoint; `nil` if it is new.
    func knowledge(of endpoint: EndpointID) -> Voucher.VerificationLevel? { graph.known[endpoint] }

    /// The level with which an endpoint is pinned.
    func pin(of endpoint: EndpointID) -> Voucher.VerificationLevel? { graph.pins[endpoint] }

    func trust(in endpoint: EndpointID) -> DeviceDirectory.Trust {
        guard graph.known[endpoint] != nil else { return .new }
        return graph.pins[endpoint] == nil ? .approved : .pinned
    }

    /// The link keys of the known endpoints that have one.
    var linkKeys: [EndpointID: AgreementPublicKey] {
        graph.known.keys.reduce(into: [:]) { keys, endpoint in
            if endpoint != own, !graph.isRefused(endpoint), let key = records[endpoint]?.payload.linkKey { keys[endpoint] = key }
        }
    }

    /// Adds the record that a known endpoint has sent itself.
    mutating func renew(_ record: [UInt8], of endpoint: EndpointID) throws(RecordError) -> Signed<EndpointRecord> {
        let record = try records.add(endpointRecord: record, of: endpoint)
        graph.setSystem(record.payload.systemID, of: endpoint)
        return record
    }

    /// Adds a paired endpoint. A record that is older than the known one changes nothing.
    /// - Returns: The newest record; `nil` if there is none that is valid.
    mutating func pair(_ record: [UInt8], with endpoint: EndpointID) -> Signed<EndpointRecord>? {
        guard let newest = (try? renew(record, of: endpoint)) ?? records[endpoint] else { return nil }
        _ = graph.pin(endpoint, .verified)
        return newest
    }

    mutating func unpair(_ endpoint: EndpointID) {
        graph.unpin(endpoint)
        forget(endpoint)
    }

    /// The known endpoints without a voucher of this endpoint, or with a voucher of a lower level.
    var unvouched: [Signed<EndpointRecord>] {
        graph.known.keys.sorted().compactMap { endpoint in
            guard endpoint != own, let knowledge = graph.known[endpoint], let record = records[endpoint] else { return nil }
            return graph.voucher(by: own, for: endpoint).map { $0 < knowledge } ?? true ? record : nil
        }
    }

    // MARK: Records

    /// Whether it equals the endpoint's last introduction. It usually does, because every command contains one.
    func isUnchanged(_ introduction: Introduction, of endpoint: EndpointID) -> Bool {
        records[endpoint]?.encoded == introduction.record.bytes && vouchers.isSame(introduction.vouchers, for: endpoint)
    }

    /// Adds a record and the vouchers for its endpoint.
    mutating func add(_ introduction: Introduction, of endpoint: EndpointID) throws(RecordError) -> Signed<EndpointRecord> {
        let isUnchanged = isUnchanged(introduction, of: endpoint)
        let record = try records.add(endpointRecord: introduction.record.bytes, of: endpoint)
        if isUnchanged { return record }
        graph.setSystem(record.payload.systemID, of: endpoint)
        let (given, others) = vouchers.take(introduction.vouchers, for: record, records)
        graph.setVouchers(given, for: endpoint)
        for (other, knowledge) in others { graph.addVoucher(by: endpoint, for: other, knowledge) }
        return record
    }

    /// Replaces the registrations of an endpoint's apps.
    mutating func set(
        _ registrations: [Blob<BlobKinds.AppRegistration>],
        of endpoint: EndpointID
    ) throws(RecordError) -> [AppRegistration] {
        try records.set(appRegistrations: registrations.map(\.bytes), of: endpoint).map(\.payload)
    }

    /// - Returns: Whether this raises the endpoint's pinned level.
    mutating func pin(_ endpoint: EndpointID, _ knowledge: Voucher.VerificationLevel) -> Bool { graph.pin(endpoint, knowledge) }

    /// Removes an endpoint that is no longer listed. The record of a pinned endpoint stays, so that its version cannot decrease and its
    /// signatures can be verified.
    mutating func leave(_ endpoint: EndpointID) {
        if graph.pins[endpoint] == nil { forget(endpoint) } else { records.removeRegistrations(of: endpoint) }
    }

    mutating func forget(_ endpoint: EndpointID) {
        vouchers.forget(endpoint)
        guard graph.pins[endpoint] == nil else { return graph.setVouchers([:], for: endpoint) }
        graph.forget(endpoint)
        records.forget(endpoint)
    }

    // MARK: Revocations

    /// The permanently revoked endpoints.
    var revoked: Set<EndpointID> { graph.revoked }

    /// The endpoints whose revocation only the relay states.
    var revokedByRelay: Set<EndpointID> { graph.revokedByRelay }

    /// Whether an endpoint was revoked, by a known endpoint or by a statement of the relay.
    func isRefused(_ endpoint: EndpointID) -> Bool { graph.isRefused(endpoint) }

    /// Verifies a revocation. `nil` if its signer may not revoke the endpoint, or is not known yet.
    func verify(_ statement: Unverified<Revocation>) -> Signed<Revocation>? {
        let (endpoint, signer) = (statement.payload.endpoint, statement.payload.revoker)
        guard graph.mayRevoke(endpoint, signer: signer), graph.revoked.count < PeerBook.maximumRevocations,
            let key = records[signer]?.payload.identityKey
        else { return nil }
        return try? Signed<Revocation>(verifying: statement.encoded, by: signer, key: key, account: records.account)
    }

    /// Revokes an endpoint permanently.
    mutating func revoke(_ endpoint: EndpointID) {
        graph.revoke(endpoint)
        forget(endpoint)
    }

    /// Revokes an endpoint until the relay lists it again. So the pin stays. Above the maximum the endpoint's id is not stored as revoked,
    /// but the endpoint is not listed either.
    mutating func revokeByRelay(_ endpoint: EndpointID) {
        if graph.revokedByRelay.count < PeerBook.maximumRevocations { graph.revokeByRelay(endpoint) }
        leave(endpoint)
    }

    /// Ends a revocation by the relay, which lists the endpoint again.
    mutating func restore(_ endpoint: EndpointID) { graph.restore(endpoint) }
}
