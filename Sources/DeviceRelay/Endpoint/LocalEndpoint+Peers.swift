// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

// Whom the account has: discovery, pins and vouchers.
extension LocalEndpoint {
    /// Begins discovery on a new connection. Whoever sends needs it as much as whoever watches.
    func watch() {
        peers.beginEnumeration()
        request {
            .watch(.init(ref: $0))
        } answer: { endpoint, answer in
            guard case .failure(let failure) = answer else { return }
            // Too many in a row, after a connection that would not last.
            let attempt = endpoint.channel.attempt
            _ = endpoint.after(max(failure.retryAfter?.count ?? 1_000, 100)) { if attempt == $0.channel.attempt { $0.watch() } }
        }
    }

    /// Something happened to the peers.
    func change(_ body: (inout PeerBook) -> [PeerBook.Action]) {
        let actions = body(&peers)
        publishDirectory()
        for action in actions { perform(action) }
    }

    /// A peer that something came from.
    func introduce(_ introduction: Introduction, as endpoint: EndpointID) throws -> PeerBook.Peer {
        readInvitations(for: endpoint)
        return try peers.introduced(introduction, as: endpoint)
    }

    func enumerated() {
        change { $0.enumerated() }
        tellAgain()
        link.update { $0.isEnumerated = true }
        takeHeldCommands()
    }

    /// What the relay has not answered, perhaps to another process of this endpoint.
    private func tellAgain() {
        let stored = try? journal.read { (try $0.revoked(), try $0.untoldRevocations(), try $0.vouchers()) }
        guard let (revoked, untold, vouchers) = stored else { return }
        change { $0.revoked(elsewhere: revoked) }
        for (endpoint, revocation) in untold { tell(revocation, of: endpoint) { _ in } }
        for endpoint in vouchers {
            if let record = peers.signedRecord(of: endpoint), peers.isConfirmed(endpoint) {
                vouch(for: record) {}
            } else {
                store { try $0.removeVoucher(for: endpoint) }
            }
        }
    }

    func publishDirectory() {
        let directory = peers.directory
        directories.update { $0[account.id] = directory }
    }

    func perform(_ action: PeerBook.Action) {
        let now = wallTime
        switch action {
        case .pin(let endpoint, let record, let knowledge):
            store { try $0.store(.init(endpoint: endpoint, record: record, pinned: now, knowledge: knowledge)) }
        case .storeEnumeration: store { try $0.setEnumerated() }
        case .forgetInviter: store { try $0.forgetInviter() }
        case .storeRevocation(let revocation, let isUntold):
            let endpoint = revocation.payload.endpoint
            logger.notice("an endpoint was revoked", metadata: ["peer": "\(endpoint.label)", "by": "\(revocation.payload.revoker.label)"])
            store { try $0.storeRevocation(of: endpoint, revocation.encoded, isUntold: isUntold) }
        case .shutOut(let endpoint): closeSessions(with: endpoint)
        case .forgetSender(let sender):
            perform(received.senderRemoved(sender))
        case .vouch(let record, let invitation):
            vouch(for: record) {}
            if let invitation { store { try $0.removeInvitation(invitation) } }
        }
    }

    /// What was forgotten by a failure is learnt again, or asked for again; so it may fail.
    private func store(_ body: @escaping @Sendable (JournalTransaction) throws -> Void) {
        let logger = logger
        journal.write(body) { result in
            if case .failure = result { logger.error("what is known of a peer cannot be stored") }
        }
    }

    /// Says that an endpoint belongs to the account, and how this one knows it.
    func vouch(for record: Signed<EndpointRecord>, completion: @escaping @Sendable () -> Void) {
        let endpoint = record.payload.endpointID
        guard let knowledge = peers.knowledge(of: endpoint) else { return completion() }
        let voucher = Voucher(by: id, for: record, knowledge: knowledge, time: relayTime)
        guard let signed = try? Signed(voucher, key: identityKey) else { return completion() }
        store { try $0.addVoucher(for: endpoint) }
        requestPatiently {
            .endpointApprove(.init(ref: $0, endpoint: endpoint, voucher: Blob(signed.encoded)))
        } answer: { own, answer in
            switch answer {
            case .ok, .settled: own.store { try $0.removeVoucher(for: endpoint) }
            // It is said again on the next connection.
            case .connectionLost: break
            case .failure(let failure):
                own.logger.warning("a voucher was not taken", metadata: ["code": "\(failure.code)"])
                if failure.code != .unavailable { own.store { try $0.removeVoucher(for: endpoint) } }
            }
            completion()
        }
    }

    /// A request that is made again when the relay says that it was too much at once.
    private func requestPatiently(_ make: @escaping @Sendable (RequestRef) -> EndpointMessage, answer: @escaping Answer) {
        request(make) { endpoint, result in
            guard case .failure(let failure) = result, failure.code == .tooManyRequests else { return answer(endpoint, result) }
            _ = endpoint.after(max(failure.retryAfter?.count ?? 1_000, 100)) { $0.requestPatiently(make, answer: answer) }
        }
    }

    /// A person confirms an endpoint, for this device and, by a voucher, for the others.
    /// - Returns: Whether it is there; once the relay has the voucher, or there is no connection.
    func confirm(_ endpoint: EndpointID) async -> Bool {
        guard let actions = peers.confirm(endpoint) else { return false }
        publishDirectory()
        for action in actions {
            if case .vouch(let record, nil) = action {
                await withCheckedContinuation { continuation in vouch(for: record) { continuation.resume() } }
            } else {
                perform(action)
            }
        }
        return true
    }

    /// Revokes an endpoint of the account, perhaps this one. Another one is refused here from now on, also if the relay refuses. The relay is
    /// told again on the next connection if it does not answer now.
    func revoke(_ endpoint: EndpointID) async throws -> ControlAnswer {
        // Without an account there is no other endpoint.
        guard let relayAccount else { return .connectionLost }
        let revocation = try Signed(Revocation(of: endpoint, by: id, account: relayAccount, time: relayTime), key: identityKey)
        // What happens because of it first, then the storage: a full disk keeps nothing open.
        let actions = peers.revoke(revocation)
        publishDirectory()
        for action in actions {
            guard case .storeRevocation(_, let isUntold) = action else {
                perform(action)
                continue
            }
            do {
                try await journal.write { try $0.storeRevocation(of: endpoint, revocation.encoded, isUntold: isUntold) }
            } catch {
                logger.error("a revocation cannot be stored", metadata: ["peer": "\(endpoint.label)"])
            }
        }
        return await withCheckedContinuation { continuation in
            tell(revocation.encoded, of: endpoint) { continuation.resume(returning: $0) }
        }
    }

    private func tell(_ revocation: [UInt8], of endpoint: EndpointID, completion: @escaping @Sendable (ControlAnswer) -> Void) {
        requestPatiently {
            .endpointRevoke(.init(ref: $0, endpoint: endpoint, revocation: Blob(revocation)))
        } answer: { own, answer in
            switch answer {
            case .ok, .settled: own.store { try $0.setTold(endpoint) }
            case .connectionLost: break
            case .failure(let failure):
                own.logger.warning("a revocation was not taken", metadata: ["code": "\(failure.code)"])
                if failure.code != .unavailable { own.store { try $0.setTold(endpoint) } }
            }
            completion(answer)
        }
    }

    /// The endpoints that are known from before, also without the relay.
    var pinnedRecords: [EndpointRecord] { peers.pinnedRecords }
}
