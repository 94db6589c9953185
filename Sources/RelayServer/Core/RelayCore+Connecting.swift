// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
package import RelayProtocol

/// Who gets in.
extension RelayCore {
    /// What the store says of a hello.
    private enum Admission: Sendable {
        /// Its record is new, or has changed, and is to be verified first.
        case unverified
        case rejected(RelayMessage.Rejected)
        /// - Parameters:
        ///   - joining: If it is new.
        ///   - introduction: If it is new or has changed.
        case admitted(AccountID, joining: Joining?, introduction: Introduction?, hasHosted: Bool, registrations: [Digest256])
    }

    /// Takes an endpoint that has proved who it is. Calls back once, from any thread.
    package func connect(
        _ hello: ProvedHello,
        peer: any ControlPeer,
        completion: @escaping @Sendable (Result<ChannelID, RelayMessage.Rejected>) -> Void
    ) {
        connect(hello, isVerified: false, peer, completion)
    }

    /// - Parameter isVerified: whether the record's signatures were checked. One that is the same to the byte as what is stored was verified
    ///   before that was stored, and is not verified again: after a restart all endpoints come back at once, as they were.
    private func connect(
        _ hello: ProvedHello,
        isVerified: Bool,
        _ peer: any ControlPeer,
        _ completion: @escaping @Sendable (Result<ChannelID, RelayMessage.Rejected>) -> Void
    ) {
        let isOpen = change { state in
            if state.admission != nil, !state.isStopping { return true }
            state.outgoing.append(.call { completion(.failure(.unavailable)) })
            return false
        }
        guard isOpen else { return }
        let (limits, time) = (limits, now().count)
        // The account is not known yet. The identity is proved, and leads to one; nobody else can have the relay work for it.
        transact(for: AccountID(of: hello.identity)) { store in
            try Self.admit(hello, isVerified: isVerified, to: store, limits: limits, time: time)
        } then: { [self] state, result in
            switch result {
            case .success(.unverified): state.outgoing.append(.call { self.verify(hello, peer, completion) })
            case .success(.admitted(let account, let joining, let introduction, let hasHosted, let registrations)):
                open(hello, peer, in: account, registrations, &state, completion) { id, presence in
                    let endpoint = hello.record.payload.endpointID
                    if let joining, let introduction {
                        let presence = presence ?? Presence(.unavailable, hasHosted ? .lost : .neverSeen)
                        return .endpointAdded(
                            .init(
                                endpoint: endpoint,
                                introduction: introduction,
                                registrations: [],
                                presence: presence,
                                joining: joining
                            )
                        )
                    }
                    guard introduction != nil || presence != nil else { return nil }
                    return .endpointUpdated(.init(endpoint: endpoint, introduction: introduction, presence: presence))
                }
            case .success(.rejected(let rejected)): state.outgoing.append(.call { completion(.failure(rejected)) })
            case .failure: state.outgoing.append(.call { completion(.failure(.unavailable)) })
            }
        }
    }

    /// Elsewhere than on the store's thread, for which all wait.
    private func verify(
        _ hello: ProvedHello,
        _ peer: any ControlPeer,
        _ completion: @escaping @Sendable (Result<ChannelID, RelayMessage.Rejected>) -> Void
    ) {
        Task {
            do throws(RecordError) {
                _ = try Signed<EndpointRecord>(verifying: hello.record.encoded, limits: limits)
            } catch {
                return completion(.failure(RelayMessage.Rejected(error)))
            }
            connect(hello, isVerified: true, peer, completion)
        }
    }

    private static func admit(
        _ hello: ProvedHello,
        isVerified: Bool,
        to store: any StoreTransaction,
        limits: Limits,
        time: Int64
    ) throws -> Admission {
        let record = hello.record.payload
        let id = record.endpointID
        let known = try store.endpoint(id)
        guard isVerified || known?.record == hello.record.encoded else { return .unverified }
        let account: AccountID
        if let known = try store.account(of: hello.identity) {
            account = known
        } else if hello.mayMakeAccount {
            account = AccountID(of: hello.identity)
            try store.addAccount(account, identity: hello.identity, time: time)
        } else {
            return .rejected(.init(code: .accountUnknown, message: "there is no account for this identity here", retry: false))
        }
        if try store.revocation(of: id) != nil {
            return .rejected(.init(code: .endpointRevoked, message: "this endpoint was revoked", retry: false))
        }
        if let known, known.account != account {
            return .rejected(
                .init(code: .endpointOfOtherAccount, message: "this endpoint is registered to another account", retry: false)
            )
        }
        guard record.account == account.rawValue else {
            return .rejected(
                .init(code: .wrongAccount, message: "the record is for another account", retry: true, account: account.rawValue)
            )
        }
        guard var row = known else {
            // A login that began before the device that let it in was revoked lets nothing new in.
            if let inviter = hello.inviter, let revocation = try store.revocation(of: inviter), revocation.account == account,
                revocation.statement?.revoker != inviter
            {
                let message = "the device that invited this one was revoked; ask for a new link"
                return .rejected(.init(code: .endpointRevoked, message: message, retry: false))
            }
            let others = try store.endpoints(of: account)
            let ever = others.count + (try store.revocationCount(of: account))
            do throws(LimitExceeded) {
                try limits.check(.endpointsPerAccount, others.count + 1)
                try limits.check(.endpointsEverPerAccount, ever + 1)
            } catch {
                return .rejected(.init(code: .limitExceeded, message: error.description, retry: false, limit: ExceededLimit(error)))
            }
            let joining = Joining(time: Milliseconds(clamping: time), invitedBy: hello.inviter, address: hello.address)
            try store.put(
                EndpointRow(
                    id: id,
                    account: account,
                    version: record.version,
                    record: hello.record.encoded,
                    hasHosted: hello.role == .host,
                    system: record.systemID,
                    keyThumbprint: record.identityKey.jwkThumbprint,
                    isEstablished: others.isEmpty || others.contains { $0.isEstablished && $0.system == record.systemID },
                    isFirst: others.isEmpty,
                    joining: joining,
                    login: hello.login
                )
            )
            return .admitted(
                account,
                joining: joining,
                introduction: Introduction(record: Blob(hello.record.encoded)),
                hasHosted: false,
                registrations: []
            )
        }
        let isSame = row.record == hello.record.encoded
        guard isSame || record.version > row.version else {
            return .rejected(.init(code: .recordOutdated, message: Refusal.outdated.message, retry: false))
        }
        row.version = record.version
        row.record = hello.record.encoded
        row.system = record.systemID
        row.login = hello.login ?? row.login
        let hasHosted = row.hasHosted
        if hello.role == .host {
            row.hasHosted = true
            row.departure = nil
        }
        // Who comes back as it was, after a restart of the relay, costs no write.
        if row != known { try store.put(row) }
        let introduction = isSame ? nil : try store.introduction(of: row)
        return .admitted(
            account,
            joining: nil,
            introduction: introduction,
            hasHosted: hasHosted,
            registrations: try store.registrations(of: id).map { Digest256(hashing: $0.registration) }
        )
    }

    /// Opens the channel of an endpoint that the store took.
    private func open(
        _ hello: ProvedHello,
        _ peer: any ControlPeer,
        in account: AccountID,
        _ registrations: [Digest256],
        _ state: inout State,
        _ completion: @escaping @Sendable (Result<ChannelID, RelayMessage.Rejected>) -> Void,
        news: (ChannelID, Presence?) -> RelayMessage?
    ) {
        let endpoint = hello.record.payload.endpointID
        let siblings = state.channels(of: endpoint, in: account).filter { $0.role == hello.role }
        let (forerunners, others) = (siblings.filter { $0.instance == hello.instance }, siblings.filter { $0.instance != hello.instance })
        if hello.role == .client, others.count >= Self.clientsPerEndpoint {
            if let news = news(ChannelID(0), nil) { state.tell(news, watchersOf: account) }
            let rejected = RelayMessage.Rejected(
                code: .tooManyClients,
                message: "this endpoint has \(Self.clientsPerEndpoint) client channels",
                retry: true
            )
            state.outgoing.append(.call { completion(.failure(rejected)) })
            return
        }
        state.lastChannel += 1
        let channel = Channel(ChannelID(state.lastChannel), hello, in: account, registrations: registrations, peer: peer)
        // Before the older one goes, which may be the account's last.
        state.add(channel)
        // Before anything else is said on the channel: the transport says `welcome` now.
        state.outgoing.append(.call { completion(.success(channel.id)) })
        // The process has left it behind; what may still come on it is older than what the process says now.
        for forerunner in forerunners { state.close(forerunner, saying: nil, code: 1000, reason: "the same process came anew") }
        var presence: Presence?
        if hello.role == .host {
            for older in others { state.close(older, saying: .replaced(.init()), code: 1000, reason: "replaced by a newer channel") }
            presence = Presence(.available, .connected, since: now())
            state.accounts[account]?.presences[endpoint] = presence
        }
        if let news = news(channel.id, presence) { state.tell(news, watchersOf: account) }
        readBoxes(of: channel)
        if hello.role == .host { offerTunnels(to: channel, &state) }
    }

    /// The channel is closed, or fell silent.
    package func disconnected(_ id: ChannelID, isSilent: Bool) {
        change { state in
            guard let channel = state.channels[id] else { return }
            if channel.role == .host, !state.left.contains(id) {
                let presence = Presence(.unavailable, .lost, since: now())
                state.accounts[channel.account]?.presences[channel.endpoint] = presence
                state.tell(.endpointUpdated(.init(endpoint: channel.endpoint, presence: presence)), watchersOf: channel.account)
                // Submitted before the account's presences are dropped, so that whoever reads the store next finds it.
                if !state.isStopping { storeLoss(of: channel) }
            }
            state.remove(channel)
            logger.debug("channel closed", metadata: ["endpoint": "\(channel.endpoint.label)", "silent": "\(isSilent)"])
        }
    }

    /// If that fails, the endpoint is `lost` all the same after the next start; only since when is not known.
    private func storeLoss(of channel: Channel) {
        let time = now().count
        transact(for: channel.account) { store in
            guard var row = try store.endpoint(channel.endpoint), row.account == channel.account else { return }
            row.departure = .init(reason: .lost, time: time)
            try store.put(row)
        } then: { _, _ in
        }
    }
}

extension RelayMessage.Rejected {
    fileprivate static let unavailable = RelayMessage.Rejected(
        code: .unavailable,
        message: "the relay takes no endpoint now",
        retry: true,
        retryAfter: 5_000
    )
}

extension StoreTransaction {
    func introduction(of endpoint: EndpointRow) throws -> Introduction {
        Introduction(record: Blob(endpoint.record), vouchers: try vouchers(for: endpoint.id).map { Blob($0) })
    }
}
