// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Vouchers, and who is established by them.
///
/// An established endpoint may revoke other ones, invite, and hold more than a newcomer may. The first endpoint of an account without any
/// is established. This includes an account that was left by all: only the last endpoint itself, or the operator, can have brought that
/// about, and the logins of all that were revoked have ended. Another one is established if it is part of the device of an established one,
/// or by the voucher of an established one that knows it verified. What a voucher's signer has only seen in a list proves nothing. When
/// endpoints are revoked, the others that only they made established are so no more.
extension AccountRelay {
    /// What is kept of vouchers for one endpoint. With them an introduction still fits into a control frame beside a command
    /// of the largest size.
    private static let maximumVoucherBytes = 64 << 10

    mutating func approve(_ request: EndpointMessage.EndpointApprove, _ voucher: Signed<Voucher>, on channel: AccountChannel) {
        serveIntroduction(of: request.endpoint, request.ref, on: channel) { store, row in
            do throws(RecordError) {
                try voucher.payload.check(row)
            } catch {
                throw Refusal(error)
            }
            try store.putVoucher(voucher.encoded, for: row.id, by: channel.endpoint, of: channel.account)
            let bytes = try store.vouchers(for: row.id).reduce(0) { $0 + $1.count }
            guard bytes <= Self.maximumVoucherBytes else {
                throw Refusal(.limitExceeded, "vouchers for one endpoint are limited to \(Self.maximumVoucherBytes) bytes")
            }
            let own = try store.member(channel.endpoint, of: channel.account)
            if own.isEstablished, voucher.payload.knowledge == .verified { row = try store.establish(row) }
            return true
        }
    }
}

extension StoreTransaction {
    /// Establishes an endpoint, and with it those that it has vouched for.
    /// - Returns: the endpoint as it is then.
    func establish(_ endpoint: EndpointRow) throws -> EndpointRow {
        var waiting = [endpoint]
        while var row = waiting.popLast() {
            guard !row.isEstablished else { continue }
            row.isEstablished = true
            try put(row)
            for bytes in try vouchers(by: row.id, of: row.account) {
                // It was verified when it came.
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

    /// Before endpoints are removed that were revoked: those that are established by their word alone are so no more. A thief's endpoints
    /// would else revoke and invite after the device that let them in was revoked.
    /// - Parameter revoker: who revokes them; `nil` for the operator.
    func demote(after revoked: [EndpointRow], by revoker: EndpointID?, in account: AccountID) throws {
        for var row in try established(by: revoked, despite: revoker, in: account) {
            row.isEstablished = false
            try put(row)
        }
    }

    /// The endpoints that an endpoint let in, and those that these let in: by invitations, or since they are established by the word of such
    /// an endpoint alone. What an endpoint that is gone has vouched for is not known any more.
    /// - Parameter row: the endpoint, if it is still there.
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

    /// Those that are established by the word of some endpoints alone.
    private func established(by endpoints: [EndpointRow], despite revoker: EndpointID?, in account: AccountID) throws -> [EndpointRow] {
        let names = Set(endpoints.map(\.id))
        let others = try self.endpoints(of: account).filter { $0.isEstablished && !names.contains($0.id) }
        let doubtful = try reached(from: endpoints, among: others)
        let sure = others.filter { $0.isFirst || $0.id == revoker || !doubtful.contains($0.id) }
        let believed = try reached(from: sure, among: others)
        return others.filter { !believed.contains($0.id) }
    }

    /// Those among some that verified vouchers and shared devices lead to, the first ones included.
    private func reached(from first: [EndpointRow], among others: [EndpointRow]) throws -> Set<EndpointID> {
        var (reached, waiting): (Set<EndpointID>, [EndpointRow]) = ([], first)
        while let row = waiting.popLast() {
            guard reached.insert(row.id).inserted else { continue }
            let named = Set(
                try vouchers(by: row.id, of: row.account).compactMap { bytes -> EndpointID? in
                    let voucher = try? Unverified<Voucher>(decoding: bytes).payload
                    return voucher?.knowledge == .verified ? voucher?.endpoint : nil
                }
            )
            waiting += others.filter { named.contains($0.id) || $0.system == row.system }
        }
        return reached
    }
}

extension Voucher {
    /// Passes if it holds for the stored record of the endpoint that it names.
    fileprivate func check(_ row: EndpointRow) throws(RecordError) {
        guard system == row.system else { throw .notPartOfSystem }
        guard row.version >= recordVersion else { throw .outdated(known: recordVersion, offered: row.version) }
        guard row.version > recordVersion || record == Digest256(hashing: row.record) else { throw .versionReused(row.version) }
    }
}
