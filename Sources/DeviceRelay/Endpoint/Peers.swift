// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// The account's other endpoints. This class owns the `PeerBook`, stores its changes, and reports them to the relay and the watchers.
final class Peers {
    /// An event for the other parts of the endpoint.
    enum Event {
        /// The relay has listed all endpoints.
        case enumerated
        /// An endpoint was excluded: its sessions must be closed.
        case shutOut(EndpointID)
        /// An endpoint is gone permanently.
        case gone(EndpointID)
    }

    private let endpoint: EndpointContext
    private let link: any ControlSending
    private let clock: RelayClock
    private let statements: PeerStatements
    private let directories: CurrentValue<[String: DeviceDirectory]>
    private var book: PeerBook
    /// When the relay has last listed all endpoints, by its time in milliseconds; `nil` for never.
    private var listed: Int64?
    /// In milliseconds.
    private static let day: Int64 = 86_400_000
    /// The pause between two times that are stored, in milliseconds.
    private static let listedPause: Int64 = 3_600_000
    private var listing: Scheduled<Void>?
    /// When pairings were read last.
    private var pairingsRead: Int64?
    /// The pairings that were read last.
    private var pairings: [PeerBook.Pin]?
    var onEvent: (Event) -> Void = { _ in }
    /// Called after each change of the book.
    var onChange: () -> Void = {}

    init(
        _ endpoint: EndpointContext,
        link: any ControlSending,
        clock: RelayClock,
        book: PeerBook,
        directories: CurrentValue<[String: DeviceDirectory]>
    ) {
        self.endpoint = endpoint
        self.link = link
        self.clock = clock
        self.book = book
        self.statements = PeerStatements(endpoint, link: link, clock: clock)
        self.directories = directories
        listed = try? endpoint.journal.read { try $0.listed() }
        if endpoint.isAnonymous { readPairings() } else { publish() }
    }

    private var journal: Journal { endpoint.journal }

    // MARK: Queries

    /// Whether the relay has listed all endpoints on the current connection.
    var isEnumerated: Bool { endpoint.status.value.isEnumerated }

    func record(of endpoint: EndpointID) -> EndpointRecord? { book.record(of: endpoint) }

    func signedRecord(of endpoint: EndpointID) -> Signed<EndpointRecord>? { book.signedRecord(of: endpoint) }

    /// Decodes an endpoint's record. The signature is not verified again if the record equals the known one.
    func record(_ encoded: [UInt8], of endpoint: EndpointID) -> EndpointRecord? {
        if let known = book.signedRecord(of: endpoint), known.encoded == encoded { return known.payload }
        return try? Signed<EndpointRecord>(verifying: encoded).payload
    }

    func isConfirmed(_ endpoint: EndpointID) -> Bool { book.isConfirmed(endpoint) }

    /// Whether this device can know which endpoints were revoked: the relay has listed all not long ago.
    var isUpToDate: Bool {
        guard !isEnumerated, let listed else { return true }
        // The relay's time may have been wrong.
        let age = clock.time &- listed
        return age >= -Self.day && age <= Int64(min(max(endpoint.settings.nearby.trustDays, 0), 36_500)) * Self.day
    }

    /// Whether an endpoint may do here what only known ones may. The others count as new.
    func isTrusted(_ endpoint: EndpointID) -> Bool { book.isConfirmed(endpoint) && isUpToDate }

    /// The cross-device app identity that an endpoint publishes for an app.
    func identity(ofApp appID: String?, at endpoint: EndpointID) -> String? { book.identity(ofApp: appID, at: endpoint) }

    func isRefused(_ endpoint: EndpointID) -> Bool { book.isRefused(endpoint) }
    func isRevoked(_ endpoint: EndpointID) -> Bool { book.isRevoked(endpoint) }

    /// The records of all known endpoints. They are available without a connection.
    var knownRecords: [EndpointRecord] { book.knownRecords }
    var knownEndpoints: [KnownEndpoint] {
        book.knownRecords.map { KnownEndpoint(record: $0, isVerified: book.knowledge(of: $0.endpointID) == .verified) }
    }

    /// Whether the relay shows an endpoint as available.
    func isAvailableAtRelay(_ endpoint: EndpointID) -> Bool {
        book.directory[endpoint]?.presence(on: .relay)?.state == .available
    }

    // MARK: Discovery

    /// Starts discovery on a new connection.
    func connected() {
        book.allow(endpoints: link.limits[.endpointsPerAccount])
        watch()
    }

    /// Starts discovery. An endpoint that only sends commands needs it too.
    private func watch() {
        book.beginEnumeration()
        link.request {
            .watch(.init(ref: $0))
        } answer: { [self] answer in
            // Retries after a failure, such as too many requests after short connections.
            if case .failure(let failure) = answer { link.afterOnConnection(failure.pause) { [weak self] in self?.watch() } }
        }
    }

    func disconnected(_ problem: ConnectionError?) {
        storeListed()
        listing?.cancel()
        _ = book.take(.relayLost(at: Milliseconds(clamping: clock.time)))
        if let problem { book.report(RemoteSystemWatcherError(problem)) }
        publish()
        endpoint.status.update { $0.isEnumerated = false }
    }

    /// Takes what a source of discovery states.
    func take(_ event: DirectoryEvent) {
        switch event {
        case .added(let message):
            let peer = message.endpoint
            readInvitations(for: peer)
            let wasShutOut = book.isShutOut(peer)
            change { $0.take(event) }
            if wasShutOut, !book.isShutOut(peer) { statements.store { try $0.removeShutOut(peer) } }
        case .updated(let message):
            if message.introduction != nil { readInvitations(for: message.endpoint) }
            change { $0.take(event) }
        case .enumerated:
            change { $0.take(event) }
            tellAgain()
            endpoint.status.update { $0.isEnumerated = true }
            storeListed()
            onEvent(.enumerated)
        case .removed, .relayLost, .relaySilent, .presence: change { $0.take(event) }
        }
    }

    /// While the relay is connected, it says each change.
    private func storeListed() {
        guard isEnumerated else { return }
        let now = clock.time
        listing?.cancel()
        listing = endpoint.loop.after(Self.day / 2) { [weak self] in self?.storeListed() }
        guard listed.map({ !(0...Self.listedPause).contains(now &- $0) }) ?? true else { return }
        listed = now
        statements.store { try $0.setListed(now) }
    }

    /// Checks the introduction of a peer that sent a command or opened a tunnel.
    func introduce(_ introduction: Introduction, as endpoint: EndpointID) throws -> PeerBook.Peer {
        readInvitations(for: endpoint)
        let peer = try book.introduced(introduction, as: endpoint)
        for action in peer.actions { perform(action) }
        return peer
    }

    /// Handles a new account, which the relay has stated for this endpoint.
    func accountChanged(to account: String, isOther: Bool) {
        book = book.emptied(for: account, isOther: isOther)
        if isOther {
            endpoint.logger.warning("the relay assigned this endpoint to another account; the endpoints of the old one are forgotten")
        }
        publish()
    }

    /// Removes all devices from the directory, because the account was removed.
    func removeAll() {
        book.removeAll()
        publish()
    }

    // MARK: Pairings

    /// Reads the endpoints of the anonymous account, which another process may have changed.
    func readPairings() {
        pairingsRead = endpoint.loop.now
        do {
            let pins = try journal.read { try PeerBook.pins($0) }
            guard pins != pairings else { return }
            pairings = pins
            change { $0.take(pairings: pins) }
        } catch {
            endpoint.logger.warning("the pairings cannot be read", metadata: ["error": "\(error)"])
        }
    }

    /// Reads the pairings before a knock is judged. Any neighbour can knock, so the reads are limited.
    func readPairingsSoon() {
        if let pairingsRead, endpoint.loop.now < pairingsRead + Self.shortestPairingInterval { return }
        readPairings()
    }

    /// In milliseconds.
    private static let shortestPairingInterval: Int64 = 20

    // MARK: Without the relay

    /// The link keys of the known endpoints that have direct paths.
    var linkKeys: [EndpointID: AgreementPublicKey] { book.linkKeys }

    /// The digest of the ids of all endpoints with a stored revocation. Those that other processes of this endpoint have stored count here
    /// from then on: nobody would repeat them to an endpoint that says that it has them.
    func revocationDigest() throws -> Digest256 {
        // A paired endpoint has no say about another one.
        guard !endpoint.isAnonymous else { return Digest256(hashing: []) }
        let revoked = try journal.read { try $0.revoked() }
        if !revoked.allSatisfy({ book.isRevoked($0) || $0 == endpoint.id }) { change { $0.revoked(elsewhere: revoked) } }
        return Digest256(hashing: revoked.sorted().flatMap(\.digest.bytes))
    }

    func revocations() throws -> [[UInt8]] { try journal.read { try $0.revocations() } }

    /// Takes what a known endpoint says of itself.
    func greeted(by peer: EndpointID, record: [UInt8], registrations: [[UInt8]]) {
        change { $0.greeted(by: peer, record: record, registrations: registrations) }
    }

    /// - Returns: Whether all were decided.
    func heard(_ revocations: [[UInt8]]) -> Bool {
        guard !endpoint.isAnonymous else { return true }
        var areDecided = false
        change { book in
            let heard = book.heard(revocations)
            areDecided = heard.areDecided
            return heard.actions
        }
        return areDecided
    }

    // MARK: Actions

    private func change(_ body: (inout PeerBook) -> [PeerBook.Action]) {
        let actions = body(&book)
        publish()
        for action in actions { perform(action) }
    }

    private func publish() {
        onChange()
        let (directory, name) = (book.directory, endpoint.account.id)
        directories.update { $0[name] = directory }
    }

    private func perform(_ action: PeerBook.Action) {
        let now = endpoint.loop.wallTime
        switch action {
        case .pin(let peer, let record, let knowledge):
            let pin = JournalTransaction.Pin(endpoint: peer, record: record, pinned: now, knowledge: knowledge)
            // Another process may have ended a pairing.
            statements.store { [isPaired = endpoint.isAnonymous] in try isPaired ? $0.renew(pin) : $0.store(pin) }
        case .storeRegistrations(let peer, let registrations): statements.store { try $0.storeRegistrations(registrations, of: peer) }
        case .storeApproved(let peer, let approved): statements.store { try $0.storeApproved(approved, of: peer) }
        case .storeEnumeration: statements.store { try $0.setEnumerated() }
        case .forgetInviter: statements.store { try $0.forgetInviter() }
        case .storeRevocation(let revocation, let isUnsent):
            let peer = revocation.payload.endpoint
            let by = revocation.payload.revoker.label
            endpoint.logger.notice("an endpoint was revoked", metadata: ["peer": "\(peer.label)", "by": "\(by)"])
            statements.store { try $0.storeRevocation(of: peer, revocation.encoded, isUnsent: isUnsent) }
        case .shutOut(let peer):
            onEvent(.shutOut(peer))
            if book.isShutOut(peer) { statements.store { try $0.storeShutOut(peer, at: now) } }
        case .forgetSender(let sender): onEvent(.gone(sender))
        case .vouch(let record, let invitation):
            vouch(for: record) {}
            if let invitation { statements.store { try $0.removeInvitation(invitation) } }
        }
    }

    // MARK: Vouchers

    /// Sends the stored revocations and vouchers that the relay has not answered, including those of other processes of this endpoint.
    private func tellAgain() {
        let stored = try? journal.read { (try $0.revoked(), try $0.unsentRevocations(), try $0.vouchers()) }
        guard let (revoked, unsent, vouchers) = stored else { return }
        change { $0.revoked(elsewhere: revoked) }
        for (peer, revocation) in unsent { statements.revoke(peer, with: revocation) { _ in } }
        for peer in vouchers {
            if let record = book.signedRecord(of: peer), book.isConfirmed(peer) {
                vouch(for: record) {}
            } else {
                statements.store { try $0.removeVoucher(for: peer) }
            }
        }
    }

    /// Sends a voucher for a known endpoint.
    private func vouch(for record: Signed<EndpointRecord>, completion: @escaping () -> Void) {
        let peer = record.payload.endpointID
        guard let knowledge = book.knowledge(of: peer) else { return completion() }
        statements.vouch(for: record, knowledge, completion: completion)
    }

    /// Confirms an endpoint for a person: for this device and, by a voucher, for the others.
    /// - Returns: Whether the endpoint exists. It returns when the relay has the voucher, or there is no connection.
    func confirm(_ peer: EndpointID) async -> Bool {
        guard let actions = book.confirm(peer) else { return false }
        publish()
        for action in actions {
            if case .vouch(let record, nil) = action {
                await withCheckedContinuation { continuation in vouch(for: record) { continuation.resume() } }
            } else {
                perform(action)
            }
        }
        return true
    }

    // MARK: Revocations

    /// Revokes an endpoint of the account, which may be this endpoint. Another endpoint is rejected here from now on, even if the relay
    /// does not accept the revocation. If the relay does not answer, the revocation is sent again on the next connection.
    /// - Throws: An error if the relay has not accepted the revocation and it is not stored here. It is then lost with the process.
    func revoke(_ peer: EndpointID, account: String) async throws -> ControlAnswer {
        let revocation = try Signed(Revocation(of: peer, by: endpoint.id, account: account, time: clock.time), key: endpoint.identityKey)
        // The actions before the storage run first, so that sessions are closed even if the disk is full.
        let actions = book.revoke(revocation)
        publish()
        var unstored: (any Error)?
        for action in actions {
            guard case .storeRevocation(_, let isUnsent) = action else {
                perform(action)
                continue
            }
            do {
                let isStored = try await journal.write { try $0.storeRevocation(of: peer, revocation.encoded, isUnsent: isUnsent) }
                if !isStored { throw AccountError(.storageFailed, message: "this device keeps no further revocation") }
            } catch {
                unstored = error
                endpoint.logger.error("a revocation cannot be stored", metadata: ["peer": "\(peer.label)"])
            }
        }
        let answer = await withCheckedContinuation { continuation in
            statements.revoke(peer, with: revocation.encoded) { continuation.resume(returning: $0) }
        }
        if case .connectionLost = answer, let unstored { throw unstored }
        return answer
    }

    // MARK: Invitations

    /// The time limit for the relay to accept the vouchers of an invitation. The remaining ones are sent later.
    private static let voucherPatience = Duration.seconds(10)

    /// Creates an invitation. This endpoint will know the new endpoint that uses it. The new endpoint knows this one and, by its vouchers,
    /// all endpoints that this one knows.
    func invite() async throws(AccountError) -> JoinLink {
        let token: AccessToken
        do throws(AccessTokenError) {
            let (provider, request) = (endpoint.accessTokens, endpoint.tokenRequest)
            token = try await appCode { () throws(AccessTokenError) in try await provider.accessToken(for: request) }
        } catch {
            throw AccountError(.accessTokenRequestFailed, message: error.message, cause: error)
        }
        let invitation = try await makeInvitation(as: endpoint.credentials, accessToken: token)
        // Stored before the link is returned, so that an endpoint that uses it at once is known.
        do {
            try await journal.write { try $0.storeInvitation(invitation.secret, ends: invitation.secretEnds) }
        } catch {
            throw AccountError(.storageFailed, message: "the invitation cannot be stored: \(error)", cause: error)
        }
        await vouchForAll()
        return invitation.link
    }

    private func vouchForAll() async {
        let records = book.unvouched
        let left = CurrentValue(records.count)
        for record in records { vouch(for: record) { left.update { $0 -= 1 } } }
        if !records.isEmpty { _ = await left.first(within: Self.voucherPatience) { $0 == 0 } }
        left.finish()
    }

    /// Records that this endpoint has joined again by a link. With another endpoint's link it knows that endpoint, and does not pin listed
    /// endpoints.
    func joined(by link: JoinLink) async {
        let isInvited = link.proof != nil
        let inviter = isInvited ? link.by : nil
        book.setInviter(inviter, isInvited: isInvited)
        // If this write fails, the inviter stays new until it is confirmed.
        try? await journal.write { transaction in
            if isInvited { try transaction.setJoined(by: inviter) } else { try transaction.forgetInviter() }
        }
    }

    /// Reads the invitations before a new endpoint's record is checked, because another process of this endpoint may have created one just
    /// now.
    private func readInvitations(for peer: EndpointID) {
        guard !book.isConfirmed(peer) else { return }
        let now = endpoint.loop.wallTime
        // If this read fails, the endpoint stays new until it is confirmed.
        if let stored = try? journal.read({ try $0.invitations(now: now) }) { book.setInvitations(stored) }
    }

    /// Deletes expired invitations.
    func forgetOldInvitations() async throws {
        let now = endpoint.loop.wallTime
        try await journal.write { try $0.removeInvitations(endedBy: now) }
    }
}
