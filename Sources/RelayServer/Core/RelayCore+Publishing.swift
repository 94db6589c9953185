// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What endpoints say of themselves. Signatures are checked before the transaction: an endpoint's key and
/// account never change.
extension RelayCore {
    func publish(_ request: EndpointMessage.Publish, on channel: Channel) {
        let bytes = request.registration.bytes
        do throws(RecordError) {
            // What was stored was verified before that; after a restart of the relay all endpoints publish again what they had published.
            if !channel.verifiedRegistrations.contains(Digest256(hashing: bytes)) {
                _ = try Signed<AppRegistration>(
                    verifying: bytes,
                    endpoint: channel.endpoint,
                    account: channel.account.rawValue,
                    key: channel.identityKey,
                    limits: limits
                )
            }
        } catch {
            return refuse(Refusal(error), request.ref, on: channel.id)
        }
        let limits = limits
        serveRegistrations(request.ref, on: channel) { store in
            let (rows, stored) = (try store.registrations(of: channel.endpoint), try store.storedBytes(of: channel.account))
            if rows.contains(where: { $0.registration == bytes }) { return false }
            let registration = try Unverified<AppRegistration>(decoding: bytes).payload
            let appID = registration.appID
            if let known = rows.first(where: { $0.appID == appID }), registration.version <= known.version { throw Refusal.outdated }
            let others = rows.reduce(0) { $1.appID == appID ? $0 : $0 + $1.registration.count }
            do throws(LimitExceeded) {
                try limits.check(.appRegistrationsBytes, others + bytes.count)
                let known = rows.reduce(0) { $1.appID == appID ? $0 + $1.registration.count : $0 }
                if bytes.count > known { try limits.check(.accountBytes, stored + bytes.count - known) }
            } catch {
                throw Refusal(exceeding: error)
            }
            let row = RegistrationRow(appID: appID, version: registration.version, registration: bytes)
            try store.put(row, of: channel.endpoint)
            return true
        }
    }

    func unpublish(_ request: EndpointMessage.Unpublish, on channel: Channel) {
        serveRegistrations(request.ref, on: channel) { store in
            guard try store.registrations(of: channel.endpoint).contains(where: { $0.appID == request.appID }) else { return false }
            try store.removeRegistration(request.appID, of: channel.endpoint)
            return true
        }
    }

    /// - Parameter body: Says whether anything has changed.
    private func serveRegistrations(
        _ ref: RequestRef,
        on channel: Channel,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> Bool
    ) {
        serve(ref, on: channel) { store in
            _ = try store.endpoint(channel.endpoint, of: channel.account)
            return try body(store) ? try store.registrations(of: channel.endpoint).map { Blob($0.registration) } : nil
        } then: { (state, registrations: [Blob<BlobKinds.AppRegistration>]?) in
            guard let registrations else { return }
            let event = RelayMessage.EndpointUpdated(endpoint: channel.endpoint, registrations: registrations)
            state.tell(.endpointUpdated(event), watchersOf: channel.account)
        }
    }

    func update(_ request: EndpointMessage.EndpointUpdate, on channel: Channel) {
        let record: Signed<EndpointRecord>
        do throws(RecordError) {
            record = try Signed(verifying: request.record.bytes, limits: limits)
            guard record.payload.endpointID == channel.endpoint else { throw .wrongEndpoint }
            guard record.payload.account == channel.account.rawValue else { throw .wrongAccount }
        } catch {
            return refuse(Refusal(error), request.ref, on: channel.id)
        }
        serveIntroduction(of: channel.endpoint, request.ref, on: channel) { store, row in
            if row.record == record.encoded { return false }
            guard record.payload.version > row.version else { throw Refusal.outdated }
            row.version = record.payload.version
            row.record = record.encoded
            row.system = record.payload.systemID
            try store.put(row)
            return true
        }
    }

    /// - Parameter body: Says whether anything has changed.
    func serveIntroduction(
        of endpoint: EndpointID,
        _ ref: RequestRef,
        on channel: Channel,
        _ body: @escaping @Sendable (any StoreTransaction, inout EndpointRow) throws -> Bool
    ) {
        serve(ref, on: channel) { store in
            _ = try store.endpoint(channel.endpoint, of: channel.account)
            var row = try store.endpoint(endpoint, of: channel.account)
            return try body(store, &row) ? try store.introduction(of: row) : nil
        } then: { (state, introduction: Introduction?) in
            guard let introduction else { return }
            let event = RelayMessage.EndpointUpdated(endpoint: endpoint, introduction: introduction)
            state.tell(.endpointUpdated(event), watchersOf: channel.account)
        }
    }

    func leave(_ request: EndpointMessage.Leaving, on channel: Channel) {
        let reason: Presence.Reason =
            switch request.reason {
            case .suspended: .suspended
            case .signedOut: .signedOut
            case .shutdown: .shutdown
            }
        let time = now()
        serve(request.ref, on: channel) { store in
            var row = try store.endpoint(channel.endpoint, of: channel.account)
            row.departure = .init(reason: reason, time: time.count)
            try store.put(row)
        } then: { state, _ in
            // A newer host channel may have come meanwhile: then the endpoint has not left.
            guard state.channels[channel.id] != nil else { return }
            state.left.insert(channel.id)
            state.deliveries[channel.id] = nil
            let presence = Presence(.unavailable, reason, since: time)
            state.accounts[channel.account]?.presences[channel.endpoint] = presence
            state.tell(.endpointUpdated(.init(endpoint: channel.endpoint, presence: presence)), watchersOf: channel.account)
        }
    }
}

extension StoreTransaction {
    /// An endpoint of the account; there is no other for it.
    func endpoint(_ id: EndpointID, of account: AccountID) throws -> EndpointRow {
        guard let row = try endpoint(id), row.account == account else {
            throw Refusal(.notFound, "there is no such endpoint in this account")
        }
        return row
    }
}
