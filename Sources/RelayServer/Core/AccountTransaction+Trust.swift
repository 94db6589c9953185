// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// Vouchers, and how endpoints become established.
///
/// An established endpoint may revoke other endpoints, invite devices, and has wider limits than a new endpoint. The first endpoint of an
/// account without endpoints becomes established. This also applies to an account that has become empty: only its last
/// endpoint or the operator can have emptied it, and the logins of revoked endpoints have ended. Another endpoint becomes established if
/// it belongs to the same device as an established endpoint, or if an established endpoint vouches for it as verified. A `firstSeen`
/// voucher has no effect here. When endpoints are revoked, endpoints that are established only through them lose that classification.
extension AccountTransaction {
    /// Stores a voucher of one endpoint of the account for another.
    func approve(
        _ request: EndpointMessage.EndpointApprove,
        _ voucher: Signed<Voucher>,
        on channel: AccountChannel
    ) throws -> IntroductionChange? {
        let (endpoint, account) = (channel.endpoint, channel.account)
        _ = try member(endpoint, of: account)
        var row = try member(request.endpoint, of: account)
        do throws(RecordError) {
            try voucher.payload.check(row)
        } catch {
            throw Rejection(error)
        }
        try putVoucher(voucher.encoded, for: row.id, by: endpoint, of: account)
        let bytes = try vouchers(for: row.id).reduce(0) { $0 + $1.count }
        guard bytes <= Introduction.maximumVoucherBytes else {
            throw Rejection(.limitExceeded, "vouchers for one endpoint are limited to \(Introduction.maximumVoucherBytes) bytes")
        }
        let isVerified = voucher.payload.knowledge == .verified
        if isVerified, try member(endpoint, of: account).isEstablished { row = try establish(row) }
        var event: RelayEvent?
        if isVerified { event = .approved(account: try accountName(account), endpoint: request.endpoint.label, by: endpoint.label) }
        return IntroductionChange(endpoint: row.id, introduction: try introduction(of: row), event: event)
    }

    /// Makes an endpoint established, and with it the endpoints that it has vouched for.
    /// - Returns: the endpoint after the change.
    func establish(_ endpoint: EndpointRow) throws -> EndpointRow {
        var waiting = [endpoint]
        while var row = waiting.popLast() {
            guard !row.isEstablished else { continue }
            row.isEstablished = true
            try put(row)
            for bytes in try vouchers(by: row.id, of: row.account) {
                // The voucher's signature was verified when the voucher arrived.
                guard let voucher = try? Unverified<Voucher>(decoding: bytes).payload, voucher.knowledge == .verified,
                    let next = try self.endpoint(voucher.endpoint, of: row.account), !next.isEstablished,
                    (try? voucher.check(next)) != nil
                else { continue }
                waiting.append(next)
            }
            // The other endpoints of the device.
            waiting += try endpoints(of: row.account).filter { $0.system == row.system && !$0.isEstablished }
        }
        return try self.endpoint(endpoint.id, of: endpoint.account) ?? endpoint
    }

    /// Removes the classification "established" from endpoints that have it only through endpoints that are about to be removed as
    /// revoked. Otherwise a thief's endpoints could revoke and invite after the device that let them in was revoked.
    /// - Parameter revoker: the endpoint that revokes them, which depends on them no more; `nil` for the operator.
    func demote(after revoked: [EndpointRow], by revoker: EndpointID?, in account: AccountID) throws {
        if var row = try established(by: revoked, despite: nil, in: account).first(where: { $0.id == revoker }) {
            row.isRoot = true
            try put(row)
        }
        for var row in try established(by: revoked, despite: revoker, in: account) {
            row.isEstablished = false
            try put(row)
        }
    }

    /// Makes the endpoints that only this endpoint established independent of others (`isRoot`). This endpoint leaves by itself, so it was not
    /// compromised. Without its vouchers they would depend on endpoints that they let in themselves.
    func succeed(_ row: EndpointRow) throws {
        let dependents = try established(by: [row], despite: nil, in: row.account)
        for var root in try established(directlyBy: row, among: dependents) {
            root.isRoot = true
            try put(root)
        }
    }

    /// The endpoints that an endpoint let in, and those that these let in: by invitation, or because they are established only through
    /// such an endpoint. The vouchers of a removed endpoint are no longer stored.
    /// - Parameter row: the endpoint, if it is still stored.
    func letIn(by endpoint: EndpointID, _ row: EndpointRow?, in account: AccountID) throws -> [EndpointRow] {
        let others = try endpoints(of: account).filter { $0.id != endpoint }
        var found: [EndpointRow] = []
        while true {
            let names = Set(found.map(\.id) + [endpoint])
            let doubtful = Set(try established(by: found + (row.map { [$0] } ?? []), despite: nil, in: account).map(\.id))
            let next = others.filter { other in
                !names.contains(other.id) && (doubtful.contains(other.id) || other.joining.invitedBy.map(names.contains) ?? false)
            }
            if next.isEmpty { return found }
            found += next
        }
    }

    /// The endpoints that are established only through some endpoints.
    private func established(by endpoints: [EndpointRow], despite revoker: EndpointID?, in account: AccountID) throws -> [EndpointRow] {
        let names = Set(endpoints.map(\.id))
        let others = try self.endpoints(of: account).filter { $0.isEstablished && !names.contains($0.id) }
        let doubtful = try reached(from: endpoints, among: others)
        let sure = others.filter { $0.isRoot || $0.id == revoker || !doubtful.contains($0.id) }
        let believed = try reached(from: sure, among: others)
        return others.filter { !believed.contains($0.id) }
    }

    /// The endpoints that are established by an endpoint: by its verified voucher, or because they are on its device.
    private func established(directlyBy row: EndpointRow, among others: [EndpointRow]) throws -> [EndpointRow] {
        let named = Set(
            try vouchers(by: row.id, of: row.account).compactMap { bytes -> EndpointID? in
                let voucher = try? Unverified<Voucher>(decoding: bytes).payload
                return voucher?.knowledge == .verified ? voucher?.endpoint : nil
            }
        )
        return others.filter { named.contains($0.id) || $0.system == row.system }
    }

    /// The endpoints among `others` that are reached by verified vouchers and shared devices, with the first ones.
    private func reached(from first: [EndpointRow], among others: [EndpointRow]) throws -> Set<EndpointID> {
        var (reached, waiting): (Set<EndpointID>, [EndpointRow]) = ([], first)
        while let row = waiting.popLast() {
            guard reached.insert(row.id).inserted else { continue }
            waiting += try established(directlyBy: row, among: others)
        }
        return reached
    }
}

extension Voucher {
    /// Passes if the voucher applies to the stored record of the endpoint that it names.
    fileprivate func check(_ row: EndpointRow) throws(RecordError) {
        guard system == row.system else { throw .notPartOfSystem }
        guard row.version >= recordVersion else { throw .outdated(known: recordVersion, offered: row.version) }
        guard row.version > recordVersion || record == Digest256(hashing: row.record) else { throw .versionReused(row.version) }
    }
}
