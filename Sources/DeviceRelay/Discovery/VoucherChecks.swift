// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The vouchers in the introductions of endpoints. Each signature is checked once, when the records of both endpoints are known.
struct VoucherChecks: Sendable {
    typealias VerificationLevel = Voucher.VerificationLevel

    /// The vouchers of each endpoint's last introduction, so that the same vouchers are not checked again.
    private var introduced: [EndpointID: [Blob<BlobKinds.Voucher>]] = [:]
    /// Vouchers whose giver has no record here yet: by the endpoint that they are for, then by the giver.
    private var unchecked: [EndpointID: [EndpointID: [UInt8]]] = [:]

    /// The vouchers of the endpoint's last introduction.
    func introduced(_ endpoint: EndpointID) -> [Blob<BlobKinds.Voucher>] { introduced[endpoint] ?? [] }

    /// Whether the endpoint's last introduction had exactly these vouchers.
    func isSame(_ vouchers: [Blob<BlobKinds.Voucher>], for endpoint: EndpointID) -> Bool { introduced[endpoint] == vouchers }

    /// - Parameter record: The endpoint's record, which is already in the record book.
    /// - Returns: The valid vouchers for the endpoint, and the endpoint's own vouchers for others that waited for its record.
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
