// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Whom this endpoint knows: the records it has checked, whom it has pinned, who vouches for whom; and the directory that
/// follows from it. What a relay says goes in; whatever a key did not sign, or that goes back, is left out.
struct PeerBook: Sendable {
    enum Action: Hashable {
        /// Store that the endpoint is pinned, with this record.
        case pin(EndpointID, record: [UInt8])
        /// Forget that it was.
        case unpin(EndpointID)
        /// Everything there was at first has been seen; what comes later is new.
        case storeEnumeration
        /// It is gone for good: its lanes need not be kept.
        case forgetSender(EndpointID)
        /// Say to the others that the endpoint belongs here, and that its invitation is used.
        case vouch(Signed<EndpointRecord>, invitation: Secret<[UInt8]>?)
    }

    /// Somebody that something came from.
    struct Peer {
        var record: EndpointRecord
        var isNew: Bool
        var actions: [Action]
    }

    let own: EndpointID
    private(set) var directory: DeviceDirectory
    private var records: RecordBook
    private var pinned: Set<EndpointID>
    /// Who vouches for an endpoint, by a signature that was checked.
    private var approvals: [EndpointID: Set<EndpointID>] = [:]
    /// With which vouchers an endpoint was introduced last, so that those are not checked once more.
    private var vouchers: [EndpointID: [Blob<BlobKinds.Voucher>]] = [:]
    /// Vouchers whose giver is not known yet, by the endpoint they are for and by the giver.
    private var unchecked: [EndpointID: [EndpointID: [UInt8]]] = [:]
    private var hasEnumerated: Bool
    /// Secrets of the invitations that this endpoint has made and nobody has used.
    private(set) var invitations: [Secret<[UInt8]>] = []
    /// Those that somebody has used, as long as they are stored.
    private var usedInvitations: Set<Secret<[UInt8]>> = []

    /// - Parameters:
    ///   - directoryName: The account's id in the app, as filters name it.
    ///   - account: The account's id at the relay, as records name it.
    ///   - pins: The stored records of the pinned endpoints.
    init(
        own: EndpointID,
        directoryName: String,
        account: String,
        pins: [(endpoint: EndpointID, record: [UInt8])],
        hasEnumerated: Bool,
        limits: Limits = Limits()
    ) {
        self.own = own
        self.directory = DeviceDirectory(account: directoryName, limits: limits)
        self.records = RecordBook(account: account, limits: limits)
        self.pinned = Set(pins.map(\.endpoint))
        self.hasEnumerated = hasEnumerated
        // Their versions must not go back, also while the process was away.
        for pin in pins { _ = try? records.add(endpointRecord: pin.record, of: pin.endpoint) }
    }

    /// The newest record of an endpoint.
    func record(of endpoint: EndpointID) -> EndpointRecord? { records[endpoint]?.payload }

    /// The same, as its endpoint signed it.
    func signedRecord(of endpoint: EndpointID) -> Signed<EndpointRecord>? { records[endpoint] }

    /// The newest records of those that are pinned, whether they are there or not.
    var pinnedRecords: [EndpointRecord] { pinned.sorted().compactMap { records[$0]?.payload } }

    /// Whether an endpoint is known: the own one, pinned, or vouched for by a pinned one.
    func isConfirmed(_ endpoint: EndpointID) -> Bool { endpoint == own || trust(in: endpoint) != .new }

    /// The secrets that are stored: an invitation that was used and is not deleted yet does not count again.
    mutating func setInvitations(_ stored: [Secret<[UInt8]>]) {
        usedInvitations.formIntersection(stored)
        invitations = stored.filter { !usedInvitations.contains($0) }
    }

    // MARK: What the relay says

    mutating func beginEnumeration() { directory.beginEnumeration() }

    /// How many endpoints the account may have at the relay.
    mutating func allow(endpoints count: Int) { directory.allow(endpoints: count) }

    mutating func added(_ message: RelayMessage.EndpointAdded) -> [Action] {
        let endpoint = message.endpoint
        let known = records[endpoint]
        do throws(RecordError) {
            let record = try add(message.introduction, of: endpoint)
            let registrations = try records.set(appRegistrations: message.registrations.map(\.bytes), of: endpoint)
            var actions = taken(record, before: known)
            let admission = directory.add(
                DeviceDirectory.Endpoint(
                    record: record.payload,
                    registrations: registrations.map(\.payload),
                    presence: message.presence,
                    trust: trust(in: endpoint),
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
        guard endpoint != own else { return [] }
        directory.remove(endpoint)
        guard message.isRevoked else {
            leave(endpoint)
            return []
        }
        let wasPinned = pinned.remove(endpoint) != nil
        forget(endpoint)
        refreshTrust()
        return (wasPinned ? [.unpin(endpoint)] : []) + [.forgetSender(endpoint)]
    }

    /// The relay has told all there is. What is there the first time is known from then on.
    mutating func enumerated() -> [Action] {
        for gone in directory.completeEnumeration() { leave(gone) }
        guard !hasEnumerated else { return [] }
        hasEnumerated = true
        let pins = directory.endpointIDs.filter { $0 != own }.flatMap { pin($0) }
        refreshTrust()
        // Last: whoever finds it after a crash has to find those that are known from then on.
        return pins + [.storeEnumeration]
    }

    mutating func lostRelay(at time: Milliseconds) { directory.loseRelay(at: time) }

    mutating func report(_ error: RemoteSystemWatcherError) { directory.report(error) }

    /// All are gone: the account was removed.
    mutating func removeAll() {
        for endpoint in directory.endpointIDs { directory.remove(endpoint) }
    }

    /// A peer that something came from, as the relay introduces it. It need not be in the directory.
    mutating func introduced(_ introduction: Introduction, as endpoint: EndpointID) throws(RecordError) -> Peer {
        let known = records[endpoint]
        let record = try add(introduction, of: endpoint)
        let actions = taken(record, before: known)
        let isKnown = isConfirmed(endpoint)
        if directory[endpoint] != nil {
            directory.update(endpoint) { $0.record = record.payload }
            refreshTrust()
        } else if !isKnown {
            // A relay that makes up callers without end must not fill the memory.
            forget(endpoint)
        }
        return Peer(record: record.payload, isNew: !isKnown, actions: actions)
    }

    /// Takes in a record, and what others say of its endpoint.
    private mutating func add(_ introduction: Introduction, of endpoint: EndpointID) throws(RecordError) -> Signed<EndpointRecord> {
        let known = records[endpoint]
        let record = try records.add(endpointRecord: introduction.record.bytes, of: endpoint)
        // Mostly it is what was said before: each command comes with it.
        if let known, known.encoded == record.encoded, vouchers[endpoint] == introduction.vouchers { return record }
        vouchers[endpoint] = introduction.vouchers
        take(introduction.vouchers, for: record)
        return record
    }

    /// A newer record of one that is pinned is stored; one that proves an invitation is pinned, and vouched for.
    private mutating func taken(_ record: Signed<EndpointRecord>, before: Signed<EndpointRecord>?) -> [Action] {
        let endpoint = record.payload.endpointID
        guard endpoint != own else { return [] }
        if pinned.contains(endpoint) {
            return before?.encoded == record.encoded ? [] : [.pin(endpoint, record: record.encoded)]
        }
        guard let proof = record.payload.invitationProof,
            let secret = invitations.first(where: { InvitationProof.isValid(proof, secret: $0.exposed, endpoint: endpoint) })
        else { return [] }
        invitations.removeAll { $0 == secret }
        usedInvitations.insert(secret)
        return pin(endpoint) + [.vouch(record, invitation: secret)]
    }

    /// What the relay says of an endpoint cannot be. What was known of it stays; its watchers are told.
    private mutating func refuse(_ endpoint: EndpointID, _ error: RecordError) {
        let what: String =
            switch error {
            case .outdated, .versionReused: "an older record than the one that is known"
            case .badSignature, .notPartOfSystem, .wrongEndpoint: "a record that it did not sign"
            case .wrongAccount: "a record of another account"
            case .malformed, .invalidField, .limitExceeded: "a record that cannot be read"
            }
        directory.report(
            RemoteSystemWatcherError(
                .recordRefused,
                message:
                    "the relay sent \(what) for the endpoint \(endpoint.label); it was left out. Do not trust this relay until you know why"
            )
        )
    }

    // MARK: Trust

    /// A person says that an endpoint is what it says. `nil` if it is not there.
    mutating func confirm(_ endpoint: EndpointID) -> [Action]? {
        guard let record = records[endpoint], endpoint != own else { return nil }
        let actions = pin(endpoint) + [.vouch(record, invitation: nil)]
        refreshTrust()
        return actions
    }

    private mutating func pin(_ endpoint: EndpointID) -> [Action] {
        guard let record = records[endpoint], pinned.insert(endpoint).inserted else { return [] }
        return [.pin(endpoint, record: record.encoded)]
    }

    private func trust(in endpoint: EndpointID) -> DeviceDirectory.Trust {
        if pinned.contains(endpoint) { return .pinned }
        let givers = approvals[endpoint] ?? []
        return givers.contains(own) || !givers.isDisjoint(with: pinned) ? .approved : .new
    }

    /// What others say of an endpoint. Each signature is checked once: when both records are there.
    private mutating func take(_ vouchers: [Blob<BlobKinds.Voucher>], for record: Signed<EndpointRecord>) {
        let endpoint = record.payload.endpointID
        approvals[endpoint] = nil
        unchecked[endpoint] = nil
        for voucher in vouchers {
            guard let giver = Self.giver(of: voucher.bytes), giver != endpoint else { continue }
            if records[giver] != nil {
                check(voucher.bytes, by: giver, for: endpoint)
            } else {
                unchecked[endpoint, default: [:]][giver] = voucher.bytes
            }
        }
        for (other, givers) in unchecked {
            guard let voucher = givers[endpoint] else { continue }
            unchecked[other]?[endpoint] = nil
            check(voucher, by: endpoint, for: other)
        }
    }

    private mutating func check(_ voucher: [UInt8], by giver: EndpointID, for endpoint: EndpointID) {
        guard let giving = records[giver]?.payload, let record = records[endpoint],
            (try? Signed<Voucher>(verifying: voucher, by: giving, for: record)) != nil
        else { return }
        approvals[endpoint, default: []].insert(giver)
    }

    /// Who claims to have given a voucher.
    private static func giver(of voucher: [UInt8]) -> EndpointID? {
        var giver: EndpointID?
        _ = try? Signed<Voucher>(verifying: voucher) { (payload) throws(RecordError) in
            giver = payload.voucher
            throw .badSignature
        }
        return giver
    }

    private mutating func refreshTrust() {
        for endpoint in directory.endpointIDs {
            let trust = trust(in: endpoint)
            if directory[endpoint]?.trust != trust { directory.update(endpoint) { $0.trust = trust } }
        }
    }

    /// An endpoint is not there any more. What is pinned must not come back older.
    private mutating func leave(_ endpoint: EndpointID) {
        if pinned.contains(endpoint) { records.remove(endpoint) } else { forget(endpoint) }
    }

    private mutating func forget(_ endpoint: EndpointID) {
        vouchers[endpoint] = nil
        approvals[endpoint] = nil
        unchecked[endpoint] = nil
        if !pinned.contains(endpoint) { records.forget(endpoint) }
    }
}
