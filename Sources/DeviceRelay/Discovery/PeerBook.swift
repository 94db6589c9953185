// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The checked state of the account's endpoints: their newest records, the directory that results from them, and which of them are known.
/// Invalid data of the relay is ignored and reported.
struct PeerBook: Sendable {
    /// The maximum number of stored revocations. Further revocations by other endpoints apply only for as long as the relay states them.
    static let maximumRevocations = 1_024

    let own: EndpointID
    var directory: DeviceDirectory
    var peers: PeerRecords
    var unproven = UnprovenRevocations()
    private var hasEnumerated: Bool
    /// The stored registrations of the pinned endpoints.
    var storedRegistrations: [EndpointID: [[UInt8]]]
    /// The stored endpoints that are known and not pinned.
    var storedApproved: [EndpointID: Approved]
    var openInvitations: OpenInvitations
    /// Whether watchers must still receive the error that the account has changed.
    private var hasNewAccount: Bool
    /// The endpoints that have told something newer directly than the relay had.
    private var toldDirectly: Set<EndpointID> = []
    /// The endpoints that were never known here and were revoked by a greeting.
    var revokedStrangers = 0

    /// - Parameters:
    ///   - directoryName: The account's id in the app, as filters name it.
    ///   - account: The account's id at the relay, as records name it.
    ///   - pins: The stored pins.
    ///   - approved: The stored endpoints that were known and not pinned.
    ///   - revoked: The endpoints with a stored revocation.
    ///   - shutOut: The endpoints whose stored revocation only the relay states.
    ///   - inviter: The endpoint whose link this one used to join, if its record has not arrived yet.
    ///   - hasEnumerated: Whether listed endpoints are no longer pinned automatically. This is the case after the first enumeration, and
    ///     from the start after a join by another endpoint's link.
    ///   - hasNewAccount: Whether the relay has assigned this endpoint to another account than before.
    init(
        own: EndpointID,
        directoryName: String,
        account: String,
        pins: [Pin] = [],
        approved: [Approved] = [],
        revoked: Set<EndpointID> = [],
        shutOut: Set<EndpointID> = [],
        inviter: EndpointID? = nil,
        hasEnumerated: Bool,
        hasNewAccount: Bool = false,
        limits: Limits = Limits()
    ) {
        self.own = own
        self.directory = DeviceDirectory(account: directoryName, limits: limits)
        self.peers = PeerRecords(
            own: own,
            account: account,
            pins: pins,
            approved: approved,
            revoked: revoked,
            shutOut: shutOut,
            limits: limits
        )
        self.openInvitations = OpenInvitations(inviter: inviter == own || inviter.map(revoked.contains) ?? false ? nil : inviter)
        self.hasEnumerated = hasEnumerated
        self.storedRegistrations = Dictionary(pins.map { ($0.endpoint, $0.registrations) }) { $1 }
        self.storedApproved = Dictionary(approved.map { ($0.endpoint, $0) }) { $1 }
        self.hasNewAccount = hasNewAccount
    }

    /// Creates an empty book for a new account. Revocations stay.
    /// - Parameter isOther: Whether there was another account before.
    func emptied(for account: String, isOther: Bool) -> PeerBook {
        var book = PeerBook(
            own: own,
            directoryName: directory.account,
            account: account,
            revoked: peers.revoked,
            inviter: openInvitations.inviter,
            hasEnumerated: hasEnumerated || isOther,
            hasNewAccount: isOther
        )
        // The directory is kept, so that its watchers receive the changes.
        book.directory = directory
        book.removeAll()
        // A new enumeration clears earlier discovery errors.
        book.directory.beginEnumeration()
        return book
    }

    // MARK: Queries

    /// The newest record of an endpoint.
    func record(of endpoint: EndpointID) -> EndpointRecord? { peers[endpoint]?.payload }

    /// The cross-device app identity that an endpoint publishes for an app.
    func identity(ofApp appID: String?, at endpoint: EndpointID) -> String? { appID.flatMap { peers.identity(ofApp: $0, at: endpoint) } }

    /// The newest signed record of an endpoint.
    func signedRecord(of endpoint: EndpointID) -> Signed<EndpointRecord>? { peers[endpoint] }

    /// The newest records of the known endpoints that are not revoked, including those that are not in the directory.
    var knownRecords: [EndpointRecord] { peers.known }

    /// The verification level of an endpoint; `nil` if it is new.
    func knowledge(of endpoint: EndpointID) -> Voucher.VerificationLevel? { peers.knowledge(of: endpoint) }

    /// Whether an endpoint is known. The own endpoint is.
    func isConfirmed(_ endpoint: EndpointID) -> Bool { peers.knowledge(of: endpoint) != nil }

    /// Whether an endpoint was revoked, by a known endpoint or by a statement of the relay.
    func isRefused(_ endpoint: EndpointID) -> Bool { peers.isRefused(endpoint) }

    /// Whether only the relay states that an endpoint was revoked.
    func isShutOut(_ endpoint: EndpointID) -> Bool { peers.revokedByRelay.contains(endpoint) }

    /// Whether a known endpoint has revoked an endpoint, which is for ever.
    func isRevoked(_ endpoint: EndpointID) -> Bool { peers.revoked.contains(endpoint) }

    /// Whether an endpoint was never known here, and is not awaited either.
    func isStranger(_ endpoint: EndpointID) -> Bool {
        record(of: endpoint) == nil && !isConfirmed(endpoint) && openInvitations.inviter != endpoint
    }

    /// The number of revoked endpoints.
    var refusedCount: Int { peers.revoked.count + peers.revokedByRelay.count }

    /// The known endpoints without a voucher of this endpoint, or with a voucher of a lower level.
    var unvouched: [Signed<EndpointRecord>] { peers.unvouched }

    /// The link keys of the known endpoints that have direct paths.
    var linkKeys: [EndpointID: AgreementPublicKey] { peers.linkKeys }

    // MARK: Invitations

    /// The secrets of this endpoint's unused invitations.
    var invitations: [Secret<[UInt8]>] { openInvitations.secrets }

    /// Sets the stored secrets. An invitation that was used and is not deleted yet stays excluded.
    mutating func setInvitations(_ stored: [Secret<[UInt8]>]) { openInvitations.set(stored) }

    /// Records that this endpoint has joined again.
    /// - Parameters:
    ///   - endpoint: The endpoint that created the link.
    ///   - isInvited: Whether another endpoint created the link.
    mutating func setInviter(_ endpoint: EndpointID?, isInvited: Bool) {
        openInvitations.inviter = endpoint == own || endpoint.map(peers.revoked.contains) ?? false ? nil : endpoint
        if isInvited { hasEnumerated = true }
    }

    // MARK: Events of discovery

    mutating func take(_ event: DirectoryEvent) -> [Action] {
        switch event {
        case .added(let message): return added(message) + approvedChanged()
        case .updated(let message): return updated(message) + approvedChanged()
        case .removed(let message): return removed(message) + approvedChanged()
        case .enumerated: return enumerated()
        case .relayLost(let time):
            if !directory.isEnumerated { showStored(since: time) }
            directory.loseRelay(at: time)
        case .relaySilent(let time): if !directory.isEnumerated { showStored(since: time) }
        case .presence(let endpoint, let presence, let path):
            // A new endpoint has no path but the relay's.
            guard isConfirmed(endpoint) || presence == nil else { return [] }
            if !directory.isEnumerated, presence != nil, let record = peers.knownRecord(of: endpoint) { showStored(record, since: nil) }
            directory.update(endpoint) { $0.setPresence(presence, on: path) }
        }
        return []
    }

    mutating func beginEnumeration() { directory.beginEnumeration() }

    /// Sets the maximum number of endpoints that the account may have at the relay.
    mutating func allow(endpoints count: Int) { directory.allow(endpoints: count) }

    private mutating func added(_ message: RelayMessage.EndpointAdded) -> [Action] {
        let endpoint = message.endpoint
        guard !peers.revoked.contains(endpoint) else { return [] }
        let known = peers[endpoint]
        do throws(RecordError) {
            let (record, registrations) = try listed(message)
            // By listing the endpoint, the relay withdraws its own statement of a revocation.
            peers.restore(endpoint)
            unproven.remove(endpoint)
            var actions = taken(record, before: known)
            let nearby = directory[endpoint]?.presence(on: .nearby)
            let admission = directory.add(
                DeviceDirectory.Endpoint(
                    record: record.payload,
                    registrations: registrations,
                    presence: message.presence,
                    trust: peers.trust(in: endpoint),
                    knowledge: peers.knowledge(of: endpoint) ?? .firstSeen,
                    joining: message.joining,
                    isInviterRevoked: message.joining?.invitedBy.map(peers.isRefused) ?? false,
                    isLocal: endpoint == own
                )
            )
            // The relay says nothing about other paths.
            directory.update(endpoint) { $0.setPresence(nearby, on: .nearby) }
            switch admission {
            case .admitted: break
            case .admittedInsteadOf(let other): peers.forget(other)
            case .refused:
                peers.forget(endpoint)
                actions = []
            }
            refreshTrust()
            return actions + registrationsChanged(of: endpoint)
        } catch {
            refuse(endpoint, error)
            return []
        }
    }

    /// What counts of an endpoint that the relay lists. Something older than what is known does not hide the endpoint. It is reported, unless
    /// the endpoint has told the newer one directly: the relay cannot have that before it meets the endpoint.
    private mutating func listed(
        _ message: RelayMessage.EndpointAdded
    ) throws(RecordError) -> (Signed<EndpointRecord>, [AppRegistration]) {
        let endpoint = message.endpoint
        let record: Signed<EndpointRecord>
        do throws(RecordError) {
            record = try peers.add(message.introduction, of: endpoint)
        } catch {
            guard case .outdated = error, let newer = peers[endpoint] else { throw error }
            if !toldDirectly.contains(endpoint) { report(.recordRefused(endpoint, error)) }
            record = newer
        }
        do throws(RecordError) {
            return (record, try peers.set(message.registrations, of: endpoint))
        } catch {
            guard case .outdated = error else { throw error }
            if !toldDirectly.contains(endpoint) { report(.recordRefused(endpoint, error)) }
            let newer = peers.registrations(of: endpoint)
            return (record, try peers.set((newer.isEmpty ? storedRegistrations[endpoint] ?? [] : newer).map { Blob($0) }, of: endpoint))
        }
    }

    private mutating func updated(_ message: RelayMessage.EndpointUpdated) -> [Action] {
        let endpoint = message.endpoint
        // Updates of endpoints that were not added or not admitted are ignored.
        guard directory[endpoint] != nil else { return [] }
        var actions: [Action] = []
        do throws(RecordError) {
            if let introduction = message.introduction {
                let known = peers[endpoint]
                let record = try peers.add(introduction, of: endpoint)
                actions = taken(record, before: known)
                directory.update(endpoint) { $0.record = record.payload }
            }
            if let registrations = message.registrations {
                let checked = try peers.set(registrations, of: endpoint)
                directory.update(endpoint) { $0.registrations = checked }
            }
        } catch {
            refuse(endpoint, error)
        }
        if let presence = message.presence { directory.update(endpoint) { $0.setPresence(presence, on: .relay) } }
        refreshTrust()
        return actions + registrationsChanged(of: endpoint)
    }

    private mutating func removed(_ message: RelayMessage.EndpointRemoved) -> [Action] {
        let endpoint = message.endpoint
        guard endpoint != own, !peers.revoked.contains(endpoint) else { return [] }
        guard message.isRevoked else {
            directory.remove(endpoint)
            peers.leave(endpoint)
            refreshTrust()
            return registrationsChanged(of: endpoint)
        }
        let statement = message.revocation.flatMap { try? Unverified<Revocation>(decoding: $0.bytes) }
        if let statement, statement.payload.endpoint == endpoint {
            if let actions = revoke(by: statement) { return actions }
            unproven.keep(statement)
        }
        return revokeByRelay(endpoint, mayBeProven: statement.map { peers[$0.payload.revoker] == nil } ?? false)
    }

    /// Completes the enumeration. After the first one, all listed endpoints are pinned as `firstSeen`, unless this endpoint joined by
    /// another endpoint's link.
    private mutating func enumerated() -> [Action] {
        for gone in directory.completeEnumeration() { peers.leave(gone) }
        // One that is only stored has not been in the directory.
        for endpoint in storedApproved.keys where directory[endpoint] == nil { peers.leave(endpoint) }
        if hasNewAccount {
            hasNewAccount = false
            directory.report(.accountChanged)
        }
        var actions: [Action] = []
        let isFirst = !hasEnumerated
        if isFirst {
            hasEnumerated = true
            actions = directory.endpointIDs.filter { $0 != own }.flatMap { pin($0, .firstSeen) }
        }
        for statement in unproven.statements { actions += revoke(by: statement) ?? [] }
        for (endpoint, name) in unproven.takeNames() where peers.revokedByRelay.contains(endpoint) {
            directory.report(.revokedByRelay(endpoint, name: name))
        }
        refreshTrust()
        for record in peers.pinned { actions += registrationsChanged(of: record.endpointID) }
        actions += approvedChanged()
        // This action comes last: after a crash, a stored enumeration implies that the pins are stored too.
        return isFirst ? actions + [.storeEnumeration] : actions
    }

    mutating func report(_ error: RemoteSystemWatcherError) { directory.report(error) }

    /// Removes all devices, because the account was removed.
    mutating func removeAll() {
        for endpoint in directory.endpointIDs { directory.remove(endpoint) }
    }

    /// Checks the introduction of a peer that sent a command or opened a tunnel. The peer need not be in the directory.
    /// - Throws: `RecordError`, or `EndpointRevoked`.
    mutating func introduced(_ introduction: Introduction, as endpoint: EndpointID) throws -> Peer {
        guard !peers.isRefused(endpoint) else { throw EndpointRevoked() }
        let (known, isUnchanged) = (peers[endpoint], peers.isUnchanged(introduction, of: endpoint))
        let record = try peers.add(introduction, of: endpoint)
        let actions = taken(record, before: known)
        let isKnown = isConfirmed(endpoint)
        if directory[endpoint] != nil {
            if isUnchanged, actions.isEmpty { return Peer(record: record.payload, isNew: !isKnown, actions: []) }
            directory.update(endpoint) { $0.record = record.payload }
            refreshTrust()
        } else if !isKnown {
            // The relay must not fill the memory with invented endpoints. An unlisted endpoint that a known endpoint vouches for, or that
            // is on a known device, is kept: only the key of a known endpoint or device can add it.
            peers.forget(endpoint)
        }
        return Peer(record: record.payload, isNew: !isKnown, actions: actions)
    }

    /// Stores a newer record of a pinned endpoint. Pins the inviter, or an endpoint with a valid invitation proof, and gives it a voucher.
    private mutating func taken(_ record: Signed<EndpointRecord>, before: Signed<EndpointRecord>?) -> [Action] {
        let endpoint = record.payload.endpointID
        guard endpoint != own else { return [] }
        if endpoint == openInvitations.inviter {
            openInvitations.inviter = nil
            return store(record, .verified) + [.vouch(record, invitation: nil), .forgetInviter]
        }
        if let knowledge = peers.pin(of: endpoint) {
            return before?.encoded == record.encoded ? [] : [.pin(endpoint, record: record.encoded, knowledge)]
        }
        guard let secret = openInvitations.use(by: record.payload) else { return [] }
        return store(record, .verified) + [.vouch(record, invitation: secret)]
    }

    /// Reports invalid data of the relay about an endpoint to the watchers. The known data stays.
    private mutating func refuse(_ endpoint: EndpointID, _ error: RecordError) {
        directory.report(.recordRefused(endpoint, error))
    }

    /// Takes the newer record and registrations of a known endpoint.
    mutating func renew(_ record: [UInt8], _ registrations: [[UInt8]], of endpoint: EndpointID) throws(RecordError) -> [Action] {
        let known = peers[endpoint]
        // Both or none.
        var renewed = peers
        let record = try renewed.renew(record, of: endpoint)
        let checked = try renewed.set(registrations.map { Blob($0) }, of: endpoint)
        if known?.encoded != record.encoded || checked != directory[endpoint]?.registrations { toldDirectly.insert(endpoint) }
        peers = renewed
        directory.update(endpoint) { ($0.record, $0.registrations) = (record.payload, checked) }
        refreshTrust()
        return taken(record, before: known) + registrationsChanged(of: endpoint)
    }

    // MARK: Trust

    /// Confirms an endpoint for a person. `nil` if the endpoint is unknown or revoked.
    mutating func confirm(_ endpoint: EndpointID) -> [Action]? {
        guard let record = peers[endpoint], endpoint != own, !peers.isRefused(endpoint) else { return nil }
        let actions = pin(endpoint, .verified) + [.vouch(record, invitation: nil)]
        refreshTrust()
        return actions
    }

    private mutating func pin(_ endpoint: EndpointID, _ knowledge: Voucher.VerificationLevel) -> [Action] {
        guard let record = peers[endpoint], peers.pin(endpoint, knowledge) else { return [] }
        return [.pin(endpoint, record: record.encoded, knowledge)] + registrationsChanged(of: endpoint)
    }

    /// As `pin`, but it always stores the record.
    private mutating func store(_ record: Signed<EndpointRecord>, _ knowledge: Voucher.VerificationLevel) -> [Action] {
        let endpoint = record.payload.endpointID
        _ = peers.pin(endpoint, knowledge)
        return [.pin(endpoint, record: record.encoded, peers.pin(of: endpoint) ?? knowledge)]
    }

    mutating func refreshTrust() {
        for id in directory.endpointIDs {
            guard let endpoint = directory[id] else { continue }
            let (trust, knowledge) = (peers.trust(in: id), peers.knowledge(of: id) ?? .firstSeen)
            let isInviterRevoked = endpoint.joining?.invitedBy.map(peers.isRefused) ?? false
            if endpoint.trust == trust, endpoint.knowledge == knowledge, endpoint.isInviterRevoked == isInviterRevoked { continue }
            directory.update(id) { ($0.trust, $0.knowledge, $0.isInviterRevoked) = (trust, knowledge, isInviterRevoked) }
        }
    }
}
