// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// A record or the vouchers of an endpoint have changed.
struct IntroductionChange: Sendable {
    let endpoint: EndpointID
    let introduction: Introduction
    /// For the operator.
    var event: RelayEvent?
}

/// What endpoints publish, and how they leave.
extension AccountRelay {
    mutating func published(_ registrations: [Blob<BlobKinds.AppRegistration>]?, by endpoint: EndpointID) {
        if let registrations { tellWatchers(.endpointUpdated(.init(endpoint: endpoint, registrations: registrations))) }
    }

    mutating func introduced(_ change: IntroductionChange?) {
        guard let change else { return }
        if let event = change.event { perform(.event(event)) }
        tellWatchers(.endpointUpdated(.init(endpoint: change.endpoint, introduction: change.introduction)))
    }

    mutating func leave(_ request: EndpointMessage.Leaving, on channel: AccountChannel) {
        // Once for each channel, since all watchers are told.
        switch channels.requestLeaving(channel.id) {
        case .no: transact(.leave(request, channel, at: now.count))
        case .requested:
            fail(request.ref, Rejection(.unavailable, "an earlier `leaving` of this channel is not stored"), on: channel.id)
        case .stored: send(.ok(.init(ref: request.ref)), to: channel.id)
        case nil: break
        }
    }

    mutating func left(_ request: EndpointMessage.Leaving, on channel: AccountChannel) {
        mailboxes.left(channel.id)
        // If a newer host channel has opened meanwhile, the endpoint has not left.
        guard channels.left(channel.id) else { return }
        refreshPresences(of: [channel.endpoint])
        // Only now nothing more is offered on the channel, so this finds all that waits.
        if request.reason != .signedOut { transact(.startWaking(channel.endpoint, at: now.count)) }
    }
}

extension AccountTransaction {
    /// Adds or replaces an app of an endpoint.
    /// - Parameter limits: The relay's own.
    /// - Returns: the apps after the change; `nil` if nothing has changed.
    func publish(_ request: EndpointMessage.Publish, on channel: AccountChannel, _ limits: Limits) throws -> [Blob<
        BlobKinds.AppRegistration
    >]? {
        let (endpoint, account) = (channel.endpoint, channel.account)
        _ = try member(endpoint, of: account)
        let bytes = request.registration.bytes
        let (rows, stored) = (try registrations(of: endpoint), try storedBytes(of: account))
        let registration = try Unverified<AppRegistration>(decoding: bytes).payload
        let appID = registration.appID
        // Also of a registration that is stored: its identity may not be proven any more.
        if let identity = registration.identity, try global.appIdentity(identity)?.proves(appID) != true {
            let message = "the relay knows no proof that \(appID) belongs to \(identity); its operator adds one: relayd app add"
            throw Rejection(.identityNotProven, message)
        }
        if rows.contains(where: { $0.registration == bytes }) { return nil }
        if let known = rows.first(where: { $0.appID == appID }), registration.version <= known.version { throw Rejection.outdated }
        let others = rows.reduce(0) { $1.appID == appID ? $0 : $0 + $1.registration.count }
        let limits = try quotas(of: account).applied(to: limits)
        do throws(LimitExceeded) {
            try limits.check(.appRegistrationsBytes, others + bytes.count)
            let known = rows.reduce(0) { $1.appID == appID ? $0 + $1.registration.count : $0 }
            if bytes.count > known { try limits.check(.accountBytes, stored + bytes.count - known) }
        } catch {
            throw Rejection(exceeding: error)
        }
        let row = RegistrationRow(appID: appID, version: registration.version, registration: bytes)
        try put(row, of: endpoint, in: account)
        return try published(by: endpoint)
    }

    func unpublish(_ appID: String, on channel: AccountChannel) throws -> [Blob<BlobKinds.AppRegistration>]? {
        _ = try member(channel.endpoint, of: channel.account)
        guard try registrations(of: channel.endpoint).contains(where: { $0.appID == appID }) else { return nil }
        try removeRegistration(appID, of: channel.endpoint, in: channel.account)
        return try published(by: channel.endpoint)
    }

    func published(by endpoint: EndpointID) throws -> [Blob<BlobKinds.AppRegistration>] {
        try registrations(of: endpoint).map { Blob($0.registration) }
    }

    func update(_ record: Signed<EndpointRecord>, on channel: AccountChannel) throws -> IntroductionChange? {
        var row = try member(channel.endpoint, of: channel.account)
        if row.record == record.encoded { return nil }
        guard record.payload.version > row.version else { throw Rejection.outdated }
        row.version = record.payload.version
        row.record = record.encoded
        row.system = record.payload.systemID
        try put(row)
        return IntroductionChange(endpoint: row.id, introduction: try introduction(of: row))
    }

    func leave(_ reason: EndpointMessage.Leaving.Reason, _ channel: AccountChannel, at time: Int64) throws {
        var row = try member(channel.endpoint, of: channel.account)
        let departure: Presence.Reason =
            switch reason {
            case .suspended: .suspended
            case .signedOut: .signedOut
            case .shutdown: .shutdown
            }
        row.departure = .init(reason: departure, time: time)
        try put(row)
        // Who has signed out wants no wakes.
        guard reason == .signedOut, var push = try push(of: channel.endpoint) else { return }
        push.isGone = true
        push.setDue(nil, now: time)
        try put(push)
    }

    /// The row of an endpoint of this account. The rejection does not show whether the id exists in another account.
    func member(_ id: EndpointID, of account: AccountID) throws -> EndpointRow {
        guard let row = try endpoint(id, of: account) else {
            throw Rejection(.notFound, "there is no such endpoint in this account")
        }
        return row
    }
}
