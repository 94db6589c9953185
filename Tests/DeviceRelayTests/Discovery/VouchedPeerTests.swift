// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// Vouchers for an endpoint count as long as the relay passes them on.
@Suite struct VouchedPeerTests {
    private func book() -> PeerBook {
        PeerBook(own: EndpointID(P256SigningKey().publicKey), directoryName: "me", account: "account", hasEnumerated: true)
    }

    @Test func vouchersCountOnlyWhileTheyArePresent() throws {
        let (giver, newcomer) = (try Member("PC"), try Member("Phone"))
        var book = book()
        _ = book.take(.added(giver.added()))
        _ = book.confirm(giver.id)
        let vouchers = [try giver.voucher(for: newcomer)]
        for _ in 0..<3 { #expect(try !book.introduced(newcomer.introduction(vouchers), as: newcomer.id).isNew) }
        #expect(try book.introduced(newcomer.introduction(), as: newcomer.id).isNew)
        #expect(try !book.introduced(newcomer.introduction(vouchers), as: newcomer.id).isNew)
    }

    @Test func voucherCountsOnceItsGiverIsConfirmed() throws {
        let (giver, newcomer) = (try Member("PC"), try Member("Phone"))
        var book = book()
        let vouchers = [try giver.voucher(for: newcomer)]
        _ = book.take(.added(newcomer.added(vouchers)))
        for _ in 0..<2 { #expect(try book.introduced(newcomer.introduction(vouchers), as: newcomer.id).isNew) }
        _ = book.take(.added(giver.added()))
        _ = book.confirm(giver.id)
        #expect(book.isConfirmed(newcomer.id))
        #expect(try !book.introduced(newcomer.introduction(vouchers), as: newcomer.id).isNew)
    }
}
