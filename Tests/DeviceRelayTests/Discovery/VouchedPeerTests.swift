// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// What others say of an endpoint counts as long as the relay passes it on, however often it does.
@Suite struct VouchedPeerTests {
    private let account = "account"

    private struct Member {
        let key: P256SigningKey
        let record: Signed<EndpointRecord>
        var id: EndpointID { record.payload.endpointID }

        init(_ name: String, account: String) throws {
            key = P256SigningKey()
            let record = try EndpointRecord(
                version: 1,
                account: account,
                identityKey: key.publicKey,
                systemKey: P256SigningKey(),
                agreementKey: P256AgreementKey().publicKey,
                name: name,
                kind: "phone",
                platform: "linux"
            )
            self.record = try Signed(record, key: key)
        }

        func voucher(for other: Member) throws -> Blob<BlobKinds.Voucher> {
            Blob(try Signed(Voucher(by: id, for: other.record, time: 1), key: key).encoded)
        }

        func introduction(_ vouchers: [Blob<BlobKinds.Voucher>] = []) -> Introduction {
            Introduction(record: Blob(record.encoded), vouchers: vouchers)
        }

        func added(_ vouchers: [Blob<BlobKinds.Voucher>] = []) -> RelayMessage.EndpointAdded {
            .init(endpoint: id, introduction: introduction(vouchers), registrations: [], presence: Presence(.available, .connected))
        }
    }

    private func book() -> PeerBook {
        PeerBook(own: EndpointID(P256SigningKey().publicKey), directoryName: "me", account: account, pins: [], hasEnumerated: true)
    }

    @Test func vouchersCountAgainAndNoLongerThanTheyAreThere() throws {
        let (giver, newcomer) = (try Member("PC", account: account), try Member("Phone", account: account))
        var book = book()
        _ = book.added(giver.added())
        _ = book.confirm(giver.id)
        let vouchers = [try giver.voucher(for: newcomer)]
        for _ in 0..<3 { #expect(try !book.introduced(newcomer.introduction(vouchers), as: newcomer.id).isNew) }
        #expect(try book.introduced(newcomer.introduction(), as: newcomer.id).isNew)
        #expect(try !book.introduced(newcomer.introduction(vouchers), as: newcomer.id).isNew)
    }

    @Test func aVoucherWaitsForItsGiver() throws {
        let (giver, newcomer) = (try Member("PC", account: account), try Member("Phone", account: account))
        var book = book()
        let vouchers = [try giver.voucher(for: newcomer)]
        _ = book.added(newcomer.added(vouchers))
        for _ in 0..<2 { #expect(try book.introduced(newcomer.introduction(vouchers), as: newcomer.id).isNew) }
        _ = book.added(giver.added())
        _ = book.confirm(giver.id)
        #expect(book.isConfirmed(newcomer.id))
        #expect(try !book.introduced(newcomer.introduction(vouchers), as: newcomer.id).isNew)
    }
}
