// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Vouchers, and who is established by them.
///
/// An established endpoint may revoke other ones, invite, and hold more than a newcomer may. The first endpoint of an account without any
/// is established. This includes an account that was left by all: only the last endpoint itself, or the operator, can have brought that
/// about, and the logins of all that were revoked have ended. Another one is established if it is part of the device of an established one,
/// or by the voucher of an established one that knows it verified. What a voucher's signer has only seen in a list proves nothing.
extension AccountRelay {
    /// What is kept of vouchers for one endpoint. With them an introduction still fits into a control frame beside a command
    /// of the largest size.
    private static let mostVoucherBytes = 64 << 10

    mutating func approve(_ request: EndpointMessage.EndpointApprove, _ voucher: Signed<Voucher>, on channel: AccountChannel) {
        serveIntroduction(of: request.endpoint, request.ref, on: channel) { store, row in
            do throws(RecordError) {
                try voucher.payload.check(row)
            } catch {
                throw Refusal(error)
            }
            try store.putVoucher(voucher.encoded, for: row.id, by: channel.endpoint, of: channel.account)
            let bytes = try store.vouchers(for: row.id).reduce(0) { $0 + $1.count }
            guard bytes <= Self.mostVoucherBytes else {
                throw Refusal(.limitExceeded, "vouchers for one endpoint are limited to \(Self.mostVoucherBytes) bytes")
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

    /// Before an endpoint that another one revokes is removed: those that are established by its word, and not by the revoker's, are so no
    /// more. A thief's endpoints would else revoke and invite after the device that let them in was revoked.
    func demote(after revoked: EndpointRow, by revoker: EndpointID) throws {
        let others = try endpoints(of: revoked.account).filter { $0.isEstablished && $0.id != revoked.id }
        let doubtful = try reached(from: [revoked], among: others)
        let believed = try reached(from: others.filter { $0.id == revoker || !doubtful.contains($0.id) }, among: others)
        for var row in others where !believed.contains(row.id) {
            row.isEstablished = false
            try put(row)
        }
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
