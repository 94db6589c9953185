// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// The admission of endpoints.
extension AccountRelay {
    /// The result of checking a hello against the stored rows.
    private enum Admission: Sendable {
        /// The record is new or has changed, and must be verified first.
        case unverified
        /// The identity belongs to another account.
        case elsewhere(AccountID)
        case rejected(RelayMessage.Rejected, events: [RelayEvent] = [])
        /// - Parameters:
        ///   - joining: set if the endpoint is new.
        ///   - introduction: set if the endpoint is new or has changed.
        ///   - push: the push registration of a host.
        ///   - accountName: the account's name, which the endpoint shows to its user.
        ///   - events: for the operator.
        case admitted(
            EndpointRow,
            joining: Joining?,
            introduction: Introduction?,
            registrations: [Digest256],
            push: PushRow?,
            accountName: String?,
            events: [RelayEvent]
        )
    }

    /// Handles the hello of an endpoint that has proved its identity: accepts, rejects, verifies or redirects it.
    /// - Parameters:
    ///   - id: the id of the channel if the relay accepts it.
    ///   - isVerified: whether the record's signatures were checked. A record that equals the stored one byte for byte was verified before
    ///     it was stored, and is not verified again: after a restart of the relay all endpoints reconnect at once with unchanged records.
    mutating func connect(_ hello: ProvedHello, as id: ChannelID, isVerified: Bool) {
        let (rules, account, time) = (rules, self.id, now.count)
        transact { store, _ in
            try Self.admit(hello, isVerified: isVerified, to: account, store, rules: rules, time: time)
        } then: { relay, result in
            switch result {
            case .success(.unverified): relay.perform(.verify(hello, id))
            case .success(.elsewhere(let account)): relay.perform(.redirect(hello, id, to: account))
            case .success(.rejected(let rejected, let events)):
                for event in events { relay.perform(.event(event)) }
                relay.perform(.reject(id, rejected))
            case .success(.admitted) where relay.isStopping: relay.perform(.reject(id, .unavailable))
            case .success(.admitted(let row, let joining, let introduction, let registrations, let push, let accountName, let events)):
                for event in events { relay.perform(.event(event)) }
                let channel = AccountChannel(id, hello, in: relay.id, registrations: registrations)
                relay.open(channel, row, push, joining, introduction, accountName)
            case .failure: relay.perform(.reject(id, .unavailable))
            }
        }
    }

    private static func admit(
        _ hello: ProvedHello,
        isVerified: Bool,
        to account: AccountID,
        _ store: any AccountTransaction,
        rules: RelayRules,
        time: Int64
    ) throws -> Admission {
        let limits = rules.limits
        let record = hello.record.payload
        let id = record.endpointID
        let home = try store.global.account(of: hello.identity)
        if let home, home != account { return .elsewhere(home) }
        let known = try store.endpoint(id, of: account)
        guard isVerified || known?.record == hello.record.encoded else { return .unverified }
        var events: [RelayEvent] = []
        if home == nil {
            guard try hello.mayMakeAccount && !store.global.isRemoved(hello.identity) else {
                return .rejected(.init(code: .accountUnknown, message: "there is no account for this identity here", retry: false))
            }
            try store.addAccount(account, identity: hello.identity, time: time)
            if !hello.names.isEmpty, let name = rules.nameAccount(hello.names, try store.global.accounts().compactMap(\.name)) {
                try store.setName(name, of: account)
            }
            events.append(.accountAdded(account: try store.accountName(account), by: .issuer(hello.identity.issuer)))
        }
        if try store.isDisabled(account) {
            return .rejected(.init(code: .accountDisabled, message: "the relay's operator has disabled the account", retry: false))
        }
        if try store.global.revocation(of: id) != nil {
            return .rejected(.init(code: .endpointRevoked, message: "this endpoint was revoked", retry: false))
        }
        // An endpoint id is unique across all accounts.
        if known == nil, try store.global.account(ofEndpoint: id) != nil {
            return .rejected(
                .init(code: .endpointOfOtherAccount, message: "this endpoint is registered to another account", retry: false)
            )
        }
        let accountName = try store.name(of: account)
        guard record.account == account.rawValue else {
            return .rejected(
                .init(
                    code: .wrongAccount,
                    message: "the record is for another account",
                    retry: true,
                    account: account.rawValue,
                    accountName: accountName
                ),
                events: events
            )
        }
        guard var row = known else {
            // A login that began before the revocation of the inviting device cannot add a new endpoint.
            if let inviter = hello.inviter, let revocation = try store.global.revocation(of: inviter), revocation.account == account,
                revocation.statement?.revoker != inviter
            {
                let message = "the device that invited this one was revoked; ask for a new link"
                return .rejected(.init(code: .endpointRevoked, message: message, retry: false))
            }
            // The relay cannot end logins of other issuers. A revoked device may have such a token still, and use it with another key.
            if let made = hello.tokenMade, let revoked = try store.lastRevocation(of: account), made.count / 1_000 < revoked / 1_000 {
                let message = "the token was made before a device of the account was revoked; sign in again"
                return .rejected(.init(code: .tokenRevoked, message: message, retry: true))
            }
            let others = try store.endpoints(of: account)
            // The trust of an account begins with its first endpoint, so the token must permit being one.
            guard !others.isEmpty || hello.scopes.contains(.deviceRegister) else {
                let rejection = TokenRejection(missing: .deviceRegister)
                return .rejected(.init(code: rejection.code, message: rejection.message, retry: false))
            }
            let ever = others.count + (try store.revocationCount(of: account))
            do throws(LimitExceeded) {
                try limits.check(.endpointsPerAccount, others.count + 1)
                try limits.check(.endpointsEverPerAccount, ever + 1)
            } catch {
                return .rejected(.init(code: .limitExceeded, message: error.description, retry: false, limit: ExceededLimit(error)))
            }
            // A device that links an identity lets in each device that signs in with it.
            let linker = try store.account(account)?.identities.first { $0.identity == hello.identity }?.linker
            let joining = Joining(time: Milliseconds(clamping: time), invitedBy: hello.inviter ?? linker, address: hello.address)
            let row = EndpointRow(
                id: id,
                account: account,
                version: record.version,
                record: hello.record.encoded,
                hasHosted: hello.role == .host,
                system: record.systemID,
                keyThumbprint: record.identityKey.jwkThumbprint,
                isEstablished: others.isEmpty || others.contains { $0.isEstablished && $0.system == record.systemID },
                isRoot: others.isEmpty,
                joining: joining,
                login: hello.login
            )
            try store.put(row)
            let name = try store.accountName(account)
            let joined = RelayEvent.joined(
                account: name,
                device: record.name,
                endpoint: id.label,
                address: hello.address ?? "",
                invitedBy: hello.inviter?.label
            )
            return .admitted(
                row,
                joining: joining,
                introduction: Introduction(record: Blob(hello.record.encoded)),
                registrations: [],
                push: nil,
                accountName: accountName,
                events: events + [joined]
            )
        }
        let isSame = row.record == hello.record.encoded
        guard isSame || record.version > row.version else {
            return .rejected(.init(code: .recordOutdated, message: Rejection.outdated.message, retry: false))
        }
        row.version = record.version
        row.record = hello.record.encoded
        row.system = record.systemID
        row.login = hello.login ?? row.login
        if hello.role == .host {
            row.hasHosted = true
            row.departure = nil
        }
        // An unchanged endpoint costs no write, since after a restart of the relay all endpoints reconnect.
        if row != known { try store.put(row) }
        let introduction = isSame ? nil : try store.introduction(of: row)
        var push = hello.role == .host ? try store.push(of: id) : nil
        if push?.connected(at: time) == true, let push { try store.put(push) }
        return .admitted(
            row,
            joining: nil,
            introduction: introduction,
            registrations: try store.registrations(of: id).map { Digest256(hashing: $0.registration) },
            push: push,
            accountName: accountName,
            events: []
        )
    }

    /// Opens a channel of an endpoint whose row is stored.
    /// - Parameters:
    ///   - push: the push registration of a host.
    ///   - joining: set if the endpoint is new.
    ///   - introduction: set if the endpoint is new or has changed.
    ///   - accountName: the name of the account, if it has one.
    private mutating func open(
        _ channel: AccountChannel,
        _ row: EndpointRow,
        _ push: PushRow?,
        _ joining: Joining?,
        _ introduction: Introduction?,
        _ accountName: String?
    ) {
        let siblings = channels(of: channel.endpoint).filter { $0.role == channel.role }
        let (forerunners, others) = (
            siblings.filter { $0.instance == channel.instance }, siblings.filter { $0.instance != channel.instance }
        )
        if channel.role == .client, others.count >= Self.clientsPerEndpoint {
            tellOpened(channel, row, push, joining, introduction)
            let message = "this endpoint has \(Self.clientsPerEndpoint) client channels"
            return perform(.reject(channel.id, .init(code: .tooManyClients, message: message, retry: true)))
        }
        // First, because the older channel may be the account's last one.
        add(channel)
        // The transport sends `welcome` now, before any other message on the channel.
        perform(.accept(channel, accountName: accountName))
        // The same process has abandoned its older channel; messages still in transit on it are outdated.
        for forerunner in forerunners { close(forerunner, saying: nil, code: 1000, reason: "the same process connected again") }
        if channel.role == .host {
            // A process that has said that it leaves is not pushed out.
            let active = others.filter { channels[$0.id]?.hasLeft == false }
            for older in others { close(older, saying: .replaced(.init()), code: 1000, reason: "replaced by a newer channel") }
            presences.losses[channel.endpoint] = nil
            var takeovers = takeovers[channel.endpoint] ?? HostTakeovers()
            takeovers.opened(channel.instance, insteadOf: active.map(\.instance), at: now)
            self.takeovers[channel.endpoint] = takeovers.isEmpty ? nil : takeovers
            if let push {
                if push.channel.kind != .polling { perform(.endWakes(channel.endpoint)) }
                tellRegistration(push)
            }
        }
        tellOpened(channel, row, push, joining, introduction)
        readBoxes(of: channel)
        if channel.role == .host { offerTunnels(to: channel) }
    }

    /// Tells the watchers what a hello has changed.
    private mutating func tellOpened(
        _ channel: AccountChannel,
        _ row: EndpointRow,
        _ push: PushRow?,
        _ joining: Joining?,
        _ introduction: Introduction?
    ) {
        if let joining, let introduction {
            let added = RelayMessage.EndpointAdded(
                endpoint: row.id,
                introduction: introduction,
                registrations: [],
                presence: takePresence(of: row, push).presence,
                joining: joining
            )
            return tellWatchers(.endpointAdded(added))
        }
        // A client channel changes no presence.
        let told = channel.role == .host ? takePresence(of: row, push) : nil
        let presence = told.flatMap { $0.isNew ? $0.presence : nil }
        guard introduction != nil || presence != nil else { return }
        tellWatchers(.endpointUpdated(.init(endpoint: row.id, introduction: introduction, presence: presence)))
    }

    /// The channel was closed or timed out.
    mutating func disconnected(_ id: ChannelID) {
        guard let open = channels[id] else { return }
        let channel = open.channel
        if channel.role == .host, !open.hasLeft {
            // Submitted before the account's presences are dropped, so that the next read of the store finds it.
            storeLoss(of: channel.endpoint)
        }
        remove(channel)
        refreshPresences(of: [channel.endpoint])
    }

    /// If the write fails, the endpoint is still `lost` after the next start, without a time. The core looks for waiting commands when the
    /// store works again.
    mutating func storeLoss(of endpoint: EndpointID) {
        let (account, time) = (id, now.count)
        presences.losses[endpoint] = .init(reason: .lost, time: time)
        if isStopping { return }
        transact { store, _ in
            guard var row = try store.endpoint(endpoint, of: account) else { return }
            row.departure = .init(reason: .lost, time: time)
            try store.put(row)
            try store.startWaking(endpoint, of: account, at: time)
        } then: { _, _ in
        }
    }
}

extension RelayMessage.Rejected {
    static let unavailable = RelayMessage.Rejected(
        code: .unavailable,
        message: "the relay accepts no endpoints now",
        retry: true,
        retryAfter: 5_000
    )
}

extension AccountTransaction {
    /// When an endpoint of the account was last revoked by another one, or by the operator. An endpoint that revokes itself was not stolen.
    func lastRevocation(of account: AccountID) throws -> Int64? {
        try revocations(of: account).last { $0.statement?.revoker != $0.endpoint }?.time
    }

    func introduction(of endpoint: EndpointRow) throws -> Introduction {
        Introduction(record: Blob(endpoint.record), vouchers: try vouchers(for: endpoint.id).map { Blob($0) })
    }
}
