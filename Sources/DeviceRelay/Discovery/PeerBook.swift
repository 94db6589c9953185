// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What the relay says of the account's endpoints, after it was checked: their newest records, the directory that follows from them, and which of
/// them are known. What a key did not sign, or that goes back, is left out.
struct PeerBook: Sendable {
    /// The most revocations that are kept. What other endpoints revoke beyond that is in force for as long as the relay says it.
    static let maximumRevocations = 1_024

    let own: EndpointID
    private(set) var directory: DeviceDirectory
    private var records: RecordBook
    private var graph: TrustGraph
    private var vouchers = VoucherChecks()
    private var unproven = UnprovenRevocations()
    private var hasEnumerated: Bool
    /// The endpoint by whose link this one joined, until its record has been seen.
    private var inviter: EndpointID?
    /// Watchers are not told yet that the account is another one.
    private var hasNewAccount: Bool
    /// Secrets of the invitations that this endpoint has made and that are not used.
    private(set) var invitations: [Secret<[UInt8]>] = []
    /// Those that were used, as long as they are stored.
    private var usedInvitations: Set<Secret<[UInt8]>> = []

    /// - Parameters:
    ///   - directoryName: The account's id in the app, as filters name it.
    ///   - account: The account's id at the relay, as records name it.
    ///   - pins: The stored pins.
    ///   - revoked: The endpoints of which a revocation is stored.
    ///   - inviter: The endpoint by whose link this one joined, if its record has not been seen.
    ///   - hasEnumerated: Whether nothing is pinned because it is listed. So it is after the first enumeration, and from the start after a
    ///     join by another endpoint's link.
    ///   - hasNewAccount: The relay has assigned this endpoint to another account than before.
    init(
        own: EndpointID,
        directoryName: String,
        account: String,
        pins: [Pin] = [],
        revoked: Set<EndpointID> = [],
        inviter: EndpointID? = nil,
        hasEnumerated: Bool,
        hasNewAccount: Bool = false,
        limits: Limits = Limits()
    ) {
        self.own = own
        self.directory = DeviceDirectory(account: directoryName, limits: limits)
        self.records = RecordBook(account: account, limits: limits)
        self.graph = TrustGraph(
            own: own,
            pins: Dictionary(pins.map { ($0.endpoint, $0.knowledge) }) { max($0, $1) },
            revoked: revoked
        )
        self.inviter = inviter == own || inviter.map(revoked.contains) ?? false ? nil : inviter
        self.hasEnumerated = hasEnumerated
        self.hasNewAccount = hasNewAccount
        // Their versions must not go back, also while the process was away.
        for pin in pins where !revoked.contains(pin.endpoint) {
            guard let record = try? records.add(endpointRecord: pin.record, of: pin.endpoint) else { continue }
            graph.setSystem(record.payload.systemID, of: pin.endpoint)
        }
    }

    /// The book of another account, or of the first one. What was revoked stays so.
    /// - Parameter isOther: There was one before, in which this endpoint knew others.
    func emptied(for account: String, isOther: Bool) -> PeerBook {
        var book = PeerBook(
            own: own,
            directoryName: directory.account,
            account: account,
            revoked: graph.revoked,
            inviter: inviter,
            hasEnumerated: hasEnumerated || isOther,
            hasNewAccount: isOther
        )
        // The same directory, so that its watchers are told what has changed.
        book.directory = directory
        book.removeAll()
        // What disturbed discovery before is over.
        book.directory.beginEnumeration()
        return book
    }

    /// The newest record of an endpoint.
    func record(of endpoint: EndpointID) -> EndpointRecord? { records[endpoint]?.payload }

    /// The same, as its endpoint signed it.
    func signedRecord(of endpoint: EndpointID) -> Signed<EndpointRecord>? { records[endpoint] }

    /// The newest records of those that are pinned and not revoked, whether they are there or not.
    var pinnedRecords: [EndpointRecord] {
        graph.pins.keys.filter { !graph.isRefused($0) }.sorted().compactMap { records[$0]?.payload }
    }

    /// How an endpoint is known; `nil` if it is new.
    func knowledge(of endpoint: EndpointID) -> Voucher.VerificationLevel? { graph.known[endpoint] }

    /// Whether an endpoint is known: the own one, pinned, or approved.
    func isConfirmed(_ endpoint: EndpointID) -> Bool { graph.known[endpoint] != nil }

    /// Whether an endpoint was revoked, by a key that is trusted here or by the relay's word.
    func isRefused(_ endpoint: EndpointID) -> Bool { graph.isRefused(endpoint) }

    /// How many endpoints are refused.
    var refusedCount: Int { graph.revoked.count + graph.revokedByRelay.count }

    /// The known endpoints that this one has not vouched for yet, or not so well as it knows them.
    var unvouched: [Signed<EndpointRecord>] {
        graph.known.keys.sorted().compactMap { endpoint in
            guard endpoint != own, let knowledge = graph.known[endpoint], let record = records[endpoint] else { return nil }
            return graph.voucher(by: own, for: endpoint).map { $0 < knowledge } ?? true ? record : nil
        }
    }

    /// The secrets that are stored: an invitation that was used and is not deleted yet does not count again.
    mutating func setInvitations(_ stored: [Secret<[UInt8]>]) {
        usedInvitations.formIntersection(stored)
        invitations = stored.filter { !usedInvitations.contains($0) }
    }

    /// This endpoint has joined anew.
    /// - Parameters:
    ///   - endpoint: The one that made the link.
    ///   - isInvited: Whether another endpoint made it.
    mutating func setInviter(_ endpoint: EndpointID?, isInvited: Bool) {
        inviter = endpoint == own || endpoint.map(graph.revoked.contains) ?? false ? nil : endpoint
        if isInvited { hasEnumerated = true }
    }

    // MARK: What the relay says

    mutating func beginEnumeration() { directory.beginEnumeration() }

    /// How many endpoints the account may have at the relay.
    mutating func allow(endpoints count: Int) { directory.allow(endpoints: count) }

    mutating func added(_ message: RelayMessage.EndpointAdded) -> [Action] {
        let endpoint = message.endpoint
        guard !graph.revoked.contains(endpoint) else { return [] }
        let known = records[endpoint]
        do throws(RecordError) {
            let record = try add(message.introduction, of: endpoint)
            let registrations = try records.set(appRegistrations: message.registrations.map(\.bytes), of: endpoint)
            // What the relay lists it does not call revoked any more.
            graph.restore(endpoint)
            unproven.remove(endpoint)
            var actions = taken(record, before: known)
            let admission = directory.add(
                DeviceDirectory.Endpoint(
                    record: record.payload,
                    registrations: registrations.map(\.payload),
                    presence: message.presence,
                    trust: trust(in: endpoint),
                    knowledge: graph.known[endpoint] ?? .firstSeen,
                    joining: message.joining,
                    isInviterRevoked: message.joining?.invitedBy.map(graph.isRefused) ?? false,
                    isLocal: endpoint == own
                )
            )
            switch admission {
            case .admitted: break
            case .admittedInsteadOf(let other): forget(other)
            case .refused:
                forget(endpoint)
                actions = []
            }
            refreshTrust()
            return actions
        } catch {
            refuse(endpoint, error)
            return []
        }
    }

    mutating func updated(_ message: RelayMessage.EndpointUpdated) -> [Action] {
        let endpoint = message.endpoint
        // A relay that updates what it has not added, or what was not admitted, says nothing.
        guard directory[endpoint] != nil else { return [] }
        var actions: [Action] = []
        do throws(RecordError) {
            if let introduction = message.introduction {
                let known = records[endpoint]
                let record = try add(introduction, of: endpoint)
                actions = taken(record, before: known)
                directory.update(endpoint) { $0.record = record.payload }
            }
            if let registrations = message.registrations {
                let signed = try records.set(appRegistrations: registrations.map(\.bytes), of: endpoint)
                directory.update(endpoint) { $0.registrations = signed.map(\.payload) }
            }
        } catch {
            refuse(endpoint, error)
        }
        if let presence = message.presence { directory.update(endpoint) { $0.presence = presence } }
        refreshTrust()
        return actions
    }

    mutating func removed(_ message: RelayMessage.EndpointRemoved) -> [Action] {
        let endpoint = message.endpoint
        guard endpoint != own, !graph.revoked.contains(endpoint) else { return [] }
        guard message.isRevoked else {
            directory.remove(endpoint)
            leave(endpoint)
            refreshTrust()
            return []
        }
        let statement = message.revocation.flatMap { try? Unverified<Revocation>(decoding: $0.bytes) }
        if let statement, statement.payload.endpoint == endpoint {
            if let actions = revoke(by: statement) { return actions }
            unproven.keep(statement)
        }
        return revokeByRelay(endpoint, mayBeProven: statement.map { records[$0.payload.revoker] == nil } ?? false)
    }

    /// The relay has told all there is. At the first time what is there is known from then on, as far as that goes, unless this endpoint joined
    /// by another one's link.
    mutating func enumerated() -> [Action] {
        for gone in directory.completeEnumeration() { leave(gone) }
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
        for (endpoint, name) in unproven.takeNames() where graph.revokedByRelay.contains(endpoint) {
            directory.report(.revokedByRelay(endpoint, name: name))
        }
        refreshTrust()
        // Last: a process that finds it after a crash has to find those that are known from then on.
        return isFirst ? actions + [.storeEnumeration] : actions
    }

    mutating func lostRelay(at time: Milliseconds) { directory.loseRelay(at: time) }

    mutating func report(_ error: RemoteSystemWatcherError) { directory.report(error) }

    /// All are gone: the account was removed.
    mutating func removeAll() {
        for endpoint in directory.endpointIDs { directory.remove(endpoint) }
    }

    /// A peer that something came from, as the relay introduces it. It need not be in the directory.
    /// - Throws: `RecordError`, or `EndpointRevoked`.
    mutating func introduced(_ introduction: Introduction, as endpoint: EndpointID) throws -> Peer {
        guard !graph.isRefused(endpoint) else { throw EndpointRevoked() }
        let known = records[endpoint]
        let record = try add(introduction, of: endpoint)
        let actions = taken(record, before: known)
        let isKnown = isConfirmed(endpoint)
        if directory[endpoint] != nil {
            directory.update(endpoint) { $0.record = record.payload }
            refreshTrust()
        } else if !isKnown {
            // A relay that invents callers without end must not fill the memory. One that a known endpoint vouches for, or that is part of a
            // known device, is kept though it is not listed: only the key of a known endpoint or device can add such a caller.
            forget(endpoint)
        }
        return Peer(record: record.payload, isNew: !isKnown, actions: actions)
    }

    /// Takes in a record, and what others say of its endpoint.
    private mutating func add(_ introduction: Introduction, of endpoint: EndpointID) throws(RecordError) -> Signed<EndpointRecord> {
        let known = records[endpoint]
        let record = try records.add(endpointRecord: introduction.record.bytes, of: endpoint)
        // Mostly it is what was said before: each command comes with it.
        if let known, known.encoded == record.encoded, vouchers.isSame(introduction.vouchers, for: endpoint) { return record }
        graph.setSystem(record.payload.systemID, of: endpoint)
        let (given, others) = vouchers.take(introduction.vouchers, for: record, records)
        graph.setVouchers(given, for: endpoint)
        for (other, knowledge) in others { graph.addVoucher(by: endpoint, for: other, knowledge) }
        return record
    }

    /// A newer record of one that is pinned is stored; the inviter, and one that proves an invitation, is pinned and vouched for.
    private mutating func taken(_ record: Signed<EndpointRecord>, before: Signed<EndpointRecord>?) -> [Action] {
        let endpoint = record.payload.endpointID
        guard endpoint != own else { return [] }
        if endpoint == inviter {
            inviter = nil
            return store(record, .verified) + [.vouch(record, invitation: nil), .forgetInviter]
        }
        if let knowledge = graph.pins[endpoint] {
            return before?.encoded == record.encoded ? [] : [.pin(endpoint, record: record.encoded, knowledge)]
        }
        guard let proof = record.payload.invitationProof,
            let secret = invitations.first(where: { InvitationProof.isValid(proof, secret: $0.exposed, endpoint: endpoint) })
        else { return [] }
        invitations.removeAll { $0 == secret }
        usedInvitations.insert(secret)
        return store(record, .verified) + [.vouch(record, invitation: secret)]
    }

    /// What the relay says of an endpoint cannot be. What was known of it stays; its watchers are told.
    private mutating func refuse(_ endpoint: EndpointID, _ error: RecordError) {
        directory.report(.recordRefused(endpoint, error))
    }

    // MARK: Trust

    /// A person says that an endpoint is what it says. `nil` if it is not there.
    mutating func confirm(_ endpoint: EndpointID) -> [Action]? {
        guard let record = records[endpoint], endpoint != own, !graph.isRefused(endpoint) else { return nil }
        let actions = pin(endpoint, .verified) + [.vouch(record, invitation: nil)]
        refreshTrust()
        return actions
    }

    private mutating func pin(_ endpoint: EndpointID, _ knowledge: Voucher.VerificationLevel) -> [Action] {
        guard let record = records[endpoint], graph.pin(endpoint, knowledge) else { return [] }
        return [.pin(endpoint, record: record.encoded, knowledge)]
    }

    /// The same, and the record is stored in any case.
    private mutating func store(_ record: Signed<EndpointRecord>, _ knowledge: Voucher.VerificationLevel) -> [Action] {
        let endpoint = record.payload.endpointID
        _ = graph.pin(endpoint, knowledge)
        return [.pin(endpoint, record: record.encoded, graph.pins[endpoint] ?? knowledge)]
    }

    private func trust(in endpoint: EndpointID) -> DeviceDirectory.Trust {
        guard graph.known[endpoint] != nil else { return .new }
        return graph.pins[endpoint] == nil ? .approved : .pinned
    }

    private mutating func refreshTrust() {
        for id in directory.endpointIDs {
            guard let endpoint = directory[id] else { continue }
            let (trust, knowledge) = (trust(in: id), graph.known[id] ?? .firstSeen)
            let isInviterRevoked = endpoint.joining?.invitedBy.map(graph.isRefused) ?? false
            if endpoint.trust == trust, endpoint.knowledge == knowledge, endpoint.isInviterRevoked == isInviterRevoked { continue }
            directory.update(id) { ($0.trust, $0.knowledge, $0.isInviterRevoked) = (trust, knowledge, isInviterRevoked) }
        }
    }

    /// An endpoint is not there any more. The record of a pinned one stays: it must not come back older, and what it signed can be checked.
    private mutating func leave(_ endpoint: EndpointID) {
        if graph.pins[endpoint] == nil { forget(endpoint) } else { records.removeRegistrations(of: endpoint) }
    }

    private mutating func forget(_ endpoint: EndpointID) {
        vouchers.forget(endpoint)
        guard graph.pins[endpoint] == nil else { return graph.setVouchers([:], for: endpoint) }
        graph.forget(endpoint)
        records.forget(endpoint)
    }

    // MARK: Revocation

    /// This endpoint revokes another one: it is refused here from now on, even if the relay does not take that.
    mutating func revoke(_ revocation: Signed<Revocation>) -> [Action] {
        let endpoint = revocation.payload.endpoint
        // What other endpoints revoke leaves room for what a person revokes here.
        guard endpoint != own, graph.revoked.count < 2 * Self.maximumRevocations || graph.revoked.contains(endpoint) else { return [] }
        return refuseForEver(revocation, isUntold: true)
    }

    /// Another process of this endpoint has stored revocations.
    mutating func revoked(elsewhere endpoints: Set<EndpointID>) -> [Action] {
        let new = endpoints.subtracting(graph.revoked).subtracting([own]).sorted()
        return new.flatMap { endpoint in
            remove(endpoint)
            return [.shutOut(endpoint), .forgetSender(endpoint)] as [Action]
        }
    }

    /// A signed statement that the relay passed on; `nil` if it proves nothing here, or not yet.
    private mutating func revoke(by statement: Unverified<Revocation>) -> [Action]? {
        let (endpoint, signer) = (statement.payload.endpoint, statement.payload.revoker)
        guard graph.mayRevoke(endpoint, signer: signer), graph.revoked.count < Self.maximumRevocations,
            let key = records[signer]?.payload.identityKey,
            let revocation = try? Signed<Revocation>(verifying: statement.encoded, by: signer, key: key, account: records.account)
        else { return nil }
        return refuseForEver(revocation, isUntold: false)
    }

    private mutating func refuseForEver(_ revocation: Signed<Revocation>, isUntold: Bool) -> [Action] {
        let endpoint = revocation.payload.endpoint
        let forgetsInviter = inviter == endpoint
        remove(endpoint)
        return [.shutOut(endpoint), .forgetSender(endpoint), .storeRevocation(revocation, isUntold: isUntold)]
            + (forgetsInviter ? [.forgetInviter] : [])
    }

    private mutating func remove(_ endpoint: EndpointID) {
        if inviter == endpoint { inviter = nil }
        unproven.remove(endpoint)
        graph.revoke(endpoint)
        directory.remove(endpoint)
        forget(endpoint)
        refreshTrust()
    }

    /// The relay says that an endpoint is revoked, and no signature proves it here. That holds until the relay lists the endpoint again; so neither
    /// its pin nor its lanes go, by which old commands are told from new ones.
    private mutating func revokeByRelay(_ endpoint: EndpointID, mayBeProven: Bool) -> [Action] {
        let name = graph.known[endpoint] == nil ? nil : records[endpoint]?.payload.name
        let isAgain = graph.revokedByRelay.contains(endpoint)
        // What does not fit is not refused by its id, and not listed either.
        if graph.revokedByRelay.count < Self.maximumRevocations { graph.revokeByRelay(endpoint) }
        directory.remove(endpoint)
        leave(endpoint)
        refreshTrust()
        if let name {
            if mayBeProven { unproven.keep(name, of: endpoint) } else { directory.report(.revokedByRelay(endpoint, name: name)) }
        }
        return isAgain ? [] : [.shutOut(endpoint)]
    }
}
