// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// The result of checking a hello against the stored rows.
enum HelloAdmission: Sendable {
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
    ///   - limits: the account's limits, for `welcome`.
    ///   - events: for the operator.
    case admitted(
        EndpointRow,
        joining: Joining?,
        introduction: Introduction?,
        registrations: [Digest256],
        push: PushRow?,
        accountName: String?,
        limits: Limits,
        events: [RelayEvent]
    )

    /// Checks a hello, and stores what it changes.
    /// - Parameter isVerified: whether the record's signatures were checked.
    static func decide(
        on hello: ProvedHello,
        isVerified: Bool,
        to account: AccountID,
        _ store: any AccountTransaction,
        _ rules: RelayRules,
        at time: Int64
    ) throws -> HelloAdmission {
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
            if !hello.names.isEmpty, let name = rules.nameAccount(hello.names, try store.global.names()) {
                try store.setName(name, of: account)
            }
            events.append(.accountAdded(account: try store.accountName(account), by: .issuer(hello.identity.issuer)))
        }
        let facts = try store.facts(of: account)
        if facts.isDisabled {
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
        let (accountName, limits) = (facts.name, try store.quotas(of: account).applied(to: rules.limits))
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
        if let known { return try update(known, by: hello, accountName: accountName, limits.listing(facts.endpoints), store, at: time) }
        return try join(hello, accountName: accountName, events: events, account, store, limits, at: time)
    }

    /// Adds a new endpoint.
    private static func join(
        _ hello: ProvedHello,
        accountName: String?,
        events: [RelayEvent],
        _ account: AccountID,
        _ store: any AccountTransaction,
        _ limits: Limits,
        at time: Int64
    ) throws -> HelloAdmission {
        let record = hello.record.payload
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
            id: record.endpointID,
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
            endpoint: row.id.label,
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
            limits: limits,
            events: events + [joined]
        )
    }

    /// A known endpoint has connected.
    private static func update(
        _ known: EndpointRow,
        by hello: ProvedHello,
        accountName: String?,
        _ limits: Limits,
        _ store: any AccountTransaction,
        at time: Int64
    ) throws -> HelloAdmission {
        let record = hello.record.payload
        var row = known
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
        var push = hello.role == .host ? try store.push(of: row.id) : nil
        if push?.connected(at: time) == true, let push { try store.put(push) }
        return .admitted(
            row,
            joining: nil,
            introduction: introduction,
            registrations: try store.registrations(of: row.id).map { Digest256(hashing: $0.registration) },
            push: push,
            accountName: accountName,
            limits: limits,
            events: []
        )
    }
}

extension Limits {
    /// For `welcome`: endpoints list as many endpoints as it says, also those that an account has above a limit that was lowered.
    fileprivate func listing(_ endpoints: Int) -> Limits {
        guard endpoints > self[.endpointsPerAccount] else { return self }
        var limits = self
        limits[.endpointsPerAccount] = endpoints
        return limits
    }
}

extension AccountTransaction {
    func storeLoss(of endpoint: EndpointID, account: AccountID, at time: Int64) throws {
        guard var row = try self.endpoint(endpoint, of: account) else { return }
        row.departure = .init(reason: .lost, time: time)
        try put(row)
        try startWaking(endpoint, of: account, at: time)
    }

    /// When an endpoint of the account was last revoked by another one, or by the operator. An endpoint that revokes itself was not stolen.
    func lastRevocation(of account: AccountID) throws -> Int64? {
        try revocations(of: account).last { $0.statement?.revoker != $0.endpoint }?.time
    }

    func introduction(of endpoint: EndpointRow) throws -> Introduction {
        Introduction(record: Blob(endpoint.record), vouchers: try vouchers(for: endpoint.id).map { Blob($0) })
    }
}
