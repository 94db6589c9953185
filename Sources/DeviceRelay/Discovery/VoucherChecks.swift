// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The vouchers that endpoints are introduced with. Each signature is checked once: when both records are there.
struct VoucherChecks: Sendable {
    typealias VerificationLevel = Voucher.VerificationLevel

    /// With which vouchers an endpoint was introduced last, so that those are not checked once more.
    private var introduced: [EndpointID: [Blob<BlobKinds.Voucher>]] = [:]
    /// Vouchers whose giver has no record here yet, by the endpoint they are for and by the giver.
    private var unchecked: [EndpointID: [EndpointID: [UInt8]]] = [:]

    /// Whether an endpoint was introduced with just these the last time.
    func isSame(_ vouchers: [Blob<BlobKinds.Voucher>], for endpoint: EndpointID) -> Bool { introduced[endpoint] == vouchers }

    /// - Parameter record: The endpoint's, which is in the book by now.
    /// - Returns: What others say of the endpoint; and what it says itself of those that were waiting for its record.
    mutating func take(
        _ vouchers: [Blob<BlobKinds.Voucher>],
        for record: Signed<EndpointRecord>,
        _ records: RecordBook
    ) -> (given: [EndpointID: VerificationLevel], others: [(EndpointID, VerificationLevel)]) {
        let endpoint = record.payload.endpointID
        introduced[endpoint] = vouchers
        unchecked[endpoint] = nil
        var given: [EndpointID: VerificationLevel] = [:]
        for voucher in vouchers {
            guard let giver = try? Unverified<Voucher>(decoding: voucher.bytes).payload.voucher, giver != endpoint else { continue }
            if records[giver] != nil {
                given[giver] = Self.checked(voucher.bytes, by: giver, for: endpoint, records)
            } else {
                unchecked[endpoint, default: [:]][giver] = voucher.bytes
            }
        }
        var others: [(EndpointID, VerificationLevel)] = []
        for (other, givers) in unchecked {
            guard let voucher = givers[endpoint] else { continue }
            unchecked[other]?[endpoint] = nil
            if let knowledge = Self.checked(voucher, by: endpoint, for: other, records) { others.append((other, knowledge)) }
        }
        return (given, others)
    }

    mutating func forget(_ endpoint: EndpointID) {
        introduced[endpoint] = nil
        unchecked[endpoint] = nil
    }

    private static func checked(
        _ voucher: [UInt8],
        by giver: EndpointID,
        for endpoint: EndpointID,
        _ records: RecordBook
    ) -> VerificationLevel? {
        guard let giving = records[giver]?.payload, let record = records[endpoint] else { return nil }
        return try? Signed<Voucher>(verifying: voucher, by: giving, for: record).payload.knowledge
    }
}
