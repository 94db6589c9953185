// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// Requests with which endpoints publish their records and registrations.
extension AccountRelay {
    mutating func publish(_ request: EndpointMessage.Publish, on channel: AccountChannel) {
        let (account, limits, bytes) = (id, rules.limits, request.registration.bytes)
        serveRegistrations(request.ref, on: channel) { store in
            let (rows, stored) = (try store.registrations(of: channel.endpoint), try store.storedBytes(of: account))
            let registration = try Unverified<AppRegistration>(decoding: bytes).payload
            let appID = registration.appID
            // Also of a registration that is stored: its identity may not be proven any more.
            if let identity = registration.identity, try store.global.appIdentity(identity)?.proves(appID) != true {
                let message = "the relay knows no proof that \(appID) belongs to \(identity); its operator adds one: relayd app add"
                throw Rejection(.identityNotProven, message)
            }
            if rows.contains(where: { $0.registration == bytes }) { return false }
            if let known = rows.first(where: { $0.appID == appID }), registration.version <= known.version { throw Rejection.outdated }
            let others = rows.reduce(0) { $1.appID == appID ? $0 : $0 + $1.registration.count }
            do throws(LimitExceeded) {
                try limits.check(.appRegistrationsBytes, others + bytes.count)
                let known = rows.reduce(0) { $1.appID == appID ? $0 + $1.registration.count : $0 }
                if bytes.count > known { try limits.check(.accountBytes, stored + bytes.count - known) }
            } catch {
                throw Rejection(exceeding: error)
            }
            let row = RegistrationRow(appID: appID, version: registration.version, registration: bytes)
            try store.put(row, of: channel.endpoint, in: account)
            return true
        }
    }

    mutating func unpublish(_ request: EndpointMessage.Unpublish, on channel: AccountChannel) {
        let account = id
        serveRegistrations(request.ref, on: channel) { store in
            guard try store.registrations(of: channel.endpoint).contains(where: { $0.appID == request.appID }) else { return false }
            try store.removeRegistration(request.appID, of: channel.endpoint, in: account)
            return true
        }
    }

    /// - Parameter body: returns whether anything has changed.
    private mutating func serveRegistrations(
        _ ref: RequestRef,
        on channel: AccountChannel,
        _ body: @escaping @Sendable (any AccountTransaction) throws -> Bool
    ) {
        serve(ref, on: channel) { store, _ in
            _ = try store.member(channel.endpoint, of: channel.account)
            return try body(store) ? try store.registrations(of: channel.endpoint).map { Blob($0.registration) } : nil
        } then: { (relay, registrations: [Blob<BlobKinds.AppRegistration>]?) in
            guard let registrations else { return }
            relay.tellWatchers(.endpointUpdated(.init(endpoint: channel.endpoint, registrations: registrations)))
        }
    }

    /// Registrations of these endpoints were removed.
    mutating func tellRegistrations(of endpoints: Set<EndpointID>) {
        transact { store, _ in
            try endpoints.map { endpoint in
                let registrations = try store.registrations(of: endpoint).map { Blob<BlobKinds.AppRegistration>($0.registration) }
                return RelayMessage.EndpointUpdated(endpoint: endpoint, registrations: registrations)
            }
        } then: { (relay, updates: Result<[RelayMessage.EndpointUpdated], any Error>) in
            for update in (try? updates.get()) ?? [] { relay.tellWatchers(.endpointUpdated(update)) }
        }
    }

    mutating func update(_ request: EndpointMessage.EndpointUpdate, _ record: Signed<EndpointRecord>, on channel: AccountChannel) {
        serveIntroduction(of: channel.endpoint, request.ref, on: channel) { store, row in
            if row.record == record.encoded { return false }
            guard record.payload.version > row.version else { throw Rejection.outdated }
            row.version = record.payload.version
            row.record = record.encoded
            row.system = record.payload.systemID
            try store.put(row)
            return true
        }
    }

    /// - Parameter body: returns whether anything has changed.
    mutating func serveIntroduction(
        of endpoint: EndpointID,
        _ ref: RequestRef,
        on channel: AccountChannel,
        event: @escaping @Sendable (any AccountTransaction) throws -> RelayEvent? = { _ in nil },
        _ body: @escaping @Sendable (any AccountTransaction, inout EndpointRow) throws -> Bool
    ) {
        serve(ref, on: channel) { store, _ in
            _ = try store.member(channel.endpoint, of: channel.account)
            var row = try store.member(endpoint, of: channel.account)
            return try body(store, &row) ? (try store.introduction(of: row), try event(store)) : nil
        } then: { (relay, change: (introduction: Introduction, event: RelayEvent?)?) in
            guard let (introduction, event) = change else { return }
            if let event { relay.perform(.event(event)) }
            relay.tellWatchers(.endpointUpdated(.init(endpoint: endpoint, introduction: introduction)))
        }
    }

    mutating func leave(_ request: EndpointMessage.Leaving, on channel: AccountChannel) {
        let reason: Presence.Reason =
            switch request.reason {
            case .suspended: .suspended
            case .signedOut: .signedOut
            case .shutdown: .shutdown
            }
        // Once for each channel, since all watchers are told.
        let isFirst = change(channel.id) { open in
            defer { open.isLeaving = true }
            return !open.isLeaving
        }
        guard isFirst == true else {
            if channels[channel.id]?.hasLeft ?? false { return send(.ok(.init(ref: request.ref)), to: channel.id) }
            return fail(request.ref, Rejection(.unavailable, "an earlier `leaving` of this channel is not stored"), on: channel.id)
        }
        let time = now
        serve(request.ref, on: channel) { store, _ in
            var row = try store.member(channel.endpoint, of: channel.account)
            row.departure = .init(reason: reason, time: time.count)
            try store.put(row)
            // Who has signed out wants no wakes.
            guard reason == .signedOut, var push = try store.push(of: channel.endpoint) else { return }
            push.isGone = true
            push.setDue(nil, now: time.count)
            try store.put(push)
        } then: { relay, _ in
            let left: Void? = relay.change(channel.id) { open in
                open.hasLeft = true
                open.delivery = nil
            }
            // If a newer host channel has opened meanwhile, the endpoint has not left.
            guard left != nil else { return }
            relay.refreshPresences(of: [channel.endpoint])
            // Only now nothing more is offered on the channel, so this finds all that waits.
            if reason != .signedOut { relay.startWaking(channel.endpoint) }
        }
    }
}

extension AccountTransaction {
    /// The row of an endpoint of this account. The rejection does not show whether the id exists in another account.
    func member(_ id: EndpointID, of account: AccountID) throws -> EndpointRow {
        guard let row = try endpoint(id, of: account) else {
            throw Rejection(.notFound, "there is no such endpoint in this account")
        }
        return row
    }
}
