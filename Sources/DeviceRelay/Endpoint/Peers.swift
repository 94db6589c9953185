// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// Whom the account has, as far as this endpoint knows: it keeps the `PeerBook`, stores what the book says, and tells the relay and the
/// watchers of what follows from it.
final class Peers {
    /// What follows for others.
    enum Event {
        /// The relay has told all endpoints there are.
        case enumerated
        /// Nothing is taken from an endpoint any more.
        case shutOut(EndpointID)
        /// An endpoint is gone for good.
        case gone(EndpointID)
    }

    private let endpoint: EndpointContext
    private let link: any ControlSending
    private let clock: RelayClock
    private let directories: CurrentValue<[String: DeviceDirectory]>
    private var book: PeerBook
    var onEvent: (Event) -> Void = { _ in }

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
        self.directories = directories
        publish()
    }

    private var journal: Journal { endpoint.journal }

    // MARK: What is known

    /// Whether the relay has told all endpoints there are, on the present connection.
    var isEnumerated: Bool { endpoint.status.value.isEnumerated }

    func record(of endpoint: EndpointID) -> EndpointRecord? { book.record(of: endpoint) }

    func signedRecord(of endpoint: EndpointID) -> Signed<EndpointRecord>? { book.signedRecord(of: endpoint) }

    /// What an endpoint's record says, which is not checked once more if it is the one that is known.
    func record(_ encoded: [UInt8], of endpoint: EndpointID) -> EndpointRecord? {
        if let known = book.signedRecord(of: endpoint), known.encoded == encoded { return known.payload }
        return try? Signed<EndpointRecord>(verifying: encoded).payload
    }

    func isConfirmed(_ endpoint: EndpointID) -> Bool { book.isConfirmed(endpoint) }

    func isRefused(_ endpoint: EndpointID) -> Bool { book.isRefused(endpoint) }

    /// The endpoints that are known from before, also without the relay.
    var pinnedRecords: [EndpointRecord] { book.pinnedRecords }

    // MARK: What the relay says

    /// There is a new connection.
    func connected() {
        book.allow(endpoints: link.limits[.endpointsPerAccount])
        watch()
    }

    /// Begins discovery: an endpoint that sends needs it as much as one that watches.
    private func watch() {
        book.beginEnumeration()
        link.request {
            .watch(.init(ref: $0))
        } answer: { [self] answer in
            // Too many in a row, after a connection that would not last.
            if case .failure(let failure) = answer { link.afterOnConnection(failure.pause) { [weak self] in self?.watch() } }
        }
    }

    func disconnected(_ problem: ConnectionError?) {
        book.lostRelay(at: Milliseconds(clamping: clock.time))
        if let problem { book.report(RemoteSystemWatcherError(problem)) }
        publish()
        endpoint.status.update { $0.isEnumerated = false }
    }

    func added(_ message: RelayMessage.EndpointAdded) {
        readInvitations(for: message.endpoint)
        change { $0.added(message) }
    }

    func updated(_ message: RelayMessage.EndpointUpdated) {
        if message.introduction != nil { readInvitations(for: message.endpoint) }
        change { $0.updated(message) }
    }

    func removed(_ message: RelayMessage.EndpointRemoved) { change { $0.removed(message) } }

    func enumerated() {
        change { $0.enumerated() }
        tellAgain()
        endpoint.status.update { $0.isEnumerated = true }
        onEvent(.enumerated)
    }

    /// A peer that something came from, as the relay introduces it.
    func introduce(_ introduction: Introduction, as endpoint: EndpointID) throws -> PeerBook.Peer {
        readInvitations(for: endpoint)
        let peer = try book.introduced(introduction, as: endpoint)
        for action in peer.actions { perform(action) }
        return peer
    }

    /// The relay has told which of its accounts this endpoint is of.
    func accountChanged(to account: String, isOther: Bool) {
        book = book.emptied(for: account, isOther: isOther)
        if isOther {
            endpoint.logger.warning("the relay assigned this endpoint to another account; the endpoints of the old one are forgotten")
        }
        publish()
    }

    /// The account was removed.
    func removeAll() {
        book.removeAll()
        publish()
    }

    // MARK: What follows

    private func change(_ body: (inout PeerBook) -> [PeerBook.Action]) {
        let actions = body(&book)
        publish()
        for action in actions { perform(action) }
    }

    private func publish() {
        let (directory, name) = (book.directory, endpoint.account.id)
        directories.update { $0[name] = directory }
    }

    private func perform(_ action: PeerBook.Action) {
        let now = endpoint.loop.wallTime
        switch action {
        case .pin(let peer, let record, let knowledge):
            store { try $0.store(.init(endpoint: peer, record: record, pinned: now, knowledge: knowledge)) }
        case .storeEnumeration: store { try $0.setEnumerated() }
        case .forgetInviter: store { try $0.forgetInviter() }
        case .storeRevocation(let revocation, let isUntold):
            let peer = revocation.payload.endpoint
            let by = revocation.payload.revoker.label
            endpoint.logger.notice("an endpoint was revoked", metadata: ["peer": "\(peer.label)", "by": "\(by)"])
            store { try $0.storeRevocation(of: peer, revocation.encoded, isUntold: isUntold) }
        case .shutOut(let peer): onEvent(.shutOut(peer))
        case .forgetSender(let sender): onEvent(.gone(sender))
        case .vouch(let record, let invitation):
            vouch(for: record) {}
            if let invitation { store { try $0.removeInvitation(invitation) } }
        }
    }

    /// What was forgotten by a failure is learnt again, or asked for again; so it may fail.
    private func store(_ body: @escaping @Sendable (JournalTransaction) throws -> Void) {
        let logger = endpoint.logger
        journal.write(body) { result in
            if case .failure = result { logger.error("the data about a peer cannot be stored") }
        }
    }

    // MARK: Vouchers

    /// What the relay has not answered, perhaps to another process of this endpoint.
    private func tellAgain() {
        let stored = try? journal.read { (try $0.revoked(), try $0.untoldRevocations(), try $0.vouchers()) }
        guard let (revoked, untold, vouchers) = stored else { return }
        change { $0.revoked(elsewhere: revoked) }
        for (peer, revocation) in untold { tell(revocation, of: peer) { _ in } }
        for peer in vouchers {
            if let record = book.signedRecord(of: peer), book.isConfirmed(peer) {
                vouch(for: record) {}
            } else {
                store { try $0.removeVoucher(for: peer) }
            }
        }
    }

    /// Says that an endpoint belongs to the account, and how this one knows it.
    private func vouch(for record: Signed<EndpointRecord>, completion: @escaping () -> Void) {
        let peer = record.payload.endpointID
        guard let knowledge = book.knowledge(of: peer) else { return completion() }
        let voucher = Voucher(by: endpoint.id, for: record, knowledge: knowledge, time: clock.time)
        guard let signed = try? Signed(voucher, key: endpoint.identityKey) else { return completion() }
        store { try $0.addVoucher(for: peer) }
        link.requestPatiently(endpoint.loop) {
            .endpointApprove(.init(ref: $0, endpoint: peer, voucher: Blob(signed.encoded)))
        } answer: { [self] answer in
            if isTold(answer, "a voucher was not taken") { store { try $0.removeVoucher(for: peer) } }
            completion()
        }
    }

    /// Whether the relay need not be told again. Without an answer, or if it is not able to take it now, it is, on the next connection.
    private func isTold(_ answer: ControlAnswer, _ refusal: Logger.Message) -> Bool {
        switch answer {
        case .ok, .settled: return true
        case .connectionLost: return false
        case .failure(let failure):
            endpoint.logger.warning(refusal, metadata: ["code": "\(failure.code)"])
            return failure.code != .unavailable
        }
    }

    /// A person confirms an endpoint, for this device and, by a voucher, for the others.
    /// - Returns: Whether it is there; once the relay has the voucher, or there is no connection.
    nonisolated(nonsending) func confirm(_ peer: EndpointID) async -> Bool {
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

    /// Revokes an endpoint of the account, perhaps this one. Another one is refused here from now on, also if the relay refuses. The relay is
    /// told again on the next connection if it does not answer now.
    nonisolated(nonsending) func revoke(_ peer: EndpointID, account: String) async throws -> ControlAnswer {
        let revocation = try Signed(Revocation(of: peer, by: endpoint.id, account: account, time: clock.time), key: endpoint.identityKey)
        // What happens because of it first, then the storage: a full disk keeps nothing open.
        let actions = book.revoke(revocation)
        publish()
        for action in actions {
            guard case .storeRevocation(_, let isUntold) = action else {
                perform(action)
                continue
            }
            do {
                try await journal.write { try $0.storeRevocation(of: peer, revocation.encoded, isUntold: isUntold) }
            } catch {
                endpoint.logger.error("a revocation cannot be stored", metadata: ["peer": "\(peer.label)"])
            }
        }
        return await withCheckedContinuation { continuation in
            tell(revocation.encoded, of: peer) { continuation.resume(returning: $0) }
        }
    }

    private func tell(_ revocation: [UInt8], of peer: EndpointID, completion: @escaping (ControlAnswer) -> Void) {
        link.requestPatiently(endpoint.loop) {
            .endpointRevoke(.init(ref: $0, endpoint: peer, revocation: Blob(revocation)))
        } answer: { [self] answer in
            if isTold(answer, "a revocation was not taken") { store { try $0.setTold(peer) } }
            completion(answer)
        }
    }

    // MARK: Invitations

    /// How long the relay has to take the vouchers of an invitation; it is told of the others later.
    private static let voucherPatience = Duration.seconds(10)

    /// Makes an invitation, whose newcomer this endpoint will know. The newcomer knows this endpoint, and by its vouchers all that this one knows.
    nonisolated(nonsending) func invite() async throws(AccountError) -> JoinLink {
        let token: AccessToken
        do throws(AccessTokenError) {
            token = try await endpoint.accessTokens.accessToken(for: endpoint.tokenRequest)
        } catch {
            throw AccountError(.accessTokenRequestFailed, message: error.message, cause: error)
        }
        let invitation = try await makeInvitation(as: endpoint.credentials, accessToken: token)
        // Before the link leaves: a newcomer that uses it at once has to be known.
        do {
            try await journal.write { try $0.storeInvitation(invitation.secret, ends: invitation.secretEnds) }
        } catch {
            throw AccountError(.storageFailed, message: "the invitation cannot be stored: \(error)", cause: error)
        }
        await vouchForAll()
        return invitation.link
    }

    private nonisolated(nonsending) func vouchForAll() async {
        let records = book.unvouched
        let left = CurrentValue(records.count)
        for record in records { vouch(for: record) { left.update { $0 -= 1 } } }
        if !records.isEmpty { _ = await left.first(within: Self.voucherPatience) { $0 == 0 } }
        left.finish()
    }

    /// This endpoint has joined anew by a link. Another endpoint's link says whom it is to know, and that nothing else is known by being listed.
    nonisolated(nonsending) func joined(by link: JoinLink) async {
        let isInvited = link.proof != nil
        let inviter = isInvited ? link.by : nil
        book.setInviter(inviter, isInvited: isInvited)
        // Without, the inviter is new until it is confirmed.
        try? await journal.write { transaction in
            if isInvited { try transaction.setJoined(by: inviter) } else { try transaction.forgetInviter() }
        }
    }

    /// Before the record of a newcomer is looked at: another process of this endpoint may have invited it just now.
    private func readInvitations(for peer: EndpointID) {
        guard !book.isConfirmed(peer) else { return }
        let now = endpoint.loop.wallTime
        // Without, the newcomer is new until it is confirmed.
        if let stored = try? journal.read({ try $0.invitations(now: now) }) { book.setInvitations(stored) }
    }

    /// Deletes the invitations that are over.
    nonisolated(nonsending) func forgetOldInvitations() async throws {
        let now = endpoint.loop.wallTime
        try await journal.write { try $0.removeInvitations(endedBy: now) }
    }
}
