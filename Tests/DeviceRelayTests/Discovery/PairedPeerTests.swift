// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// The anonymous account, whose endpoints are those of the stored pairings.
@Suite struct PairedPeerTests {
    private let own: Member
    private let bert: Member
    private let carl: Member

    init() throws {
        own = try Member("Anna", account: AnonymousAccount.id, linkKey: P256LinkKey())
        bert = try Member("Bert", account: AnonymousAccount.id, linkKey: P256LinkKey())
        carl = try Member("Carl", account: AnonymousAccount.id, linkKey: P256LinkKey())
    }

    private func book() -> PeerBook {
        PeerBook(own: own.id, directoryName: AnonymousAccount.id, account: AnonymousAccount.id, hasEnumerated: false)
    }

    private func pin(_ member: Member, _ apps: String...) throws -> PeerBook.Pin {
        .init(
            endpoint: member.id,
            record: member.record.encoded,
            knowledge: .verified,
            registrations: try apps.map { try member.registration(of: $0) }
        )
    }

    @Test func storedPairingsAreAllThereIs() throws {
        var book = book()
        #expect(book.take(pairings: []).isEmpty && book.directory.isEnumerated)
        #expect(book.take(pairings: [try pin(bert, "player"), try pin(carl)]).isEmpty)
        #expect(Set(book.directory.endpointIDs) == [bert.id, carl.id] && Set(book.linkKeys.keys) == [bert.id, carl.id])
        #expect(book.directory[bert.id]?.registrations.map(\.appID) == ["player"])
        #expect(book.directory[bert.id]?.presence.reason == .notNearby && book.isConfirmed(bert.id))
        // Another process has ended one.
        #expect(book.take(pairings: [try pin(carl)]) == [.shutOut(bert.id), .forgetSender(bert.id)])
        #expect(book.directory.endpointIDs == [carl.id] && Set(book.linkKeys.keys) == [carl.id])
        #expect(!book.isConfirmed(bert.id) && book.record(of: bert.id) == nil)
        // And paired it again.
        #expect(book.take(pairings: [try pin(carl), try pin(bert)]).isEmpty)
        #expect(book.isConfirmed(bert.id) && book.directory[bert.id] != nil)
    }

    @Test func newerRecordOfAGreetingStays() throws {
        var book = book()
        _ = book.take(pairings: [try pin(bert)])
        let newer = try Member(
            "Robert",
            account: AnonymousAccount.id,
            version: 2,
            key: bert.key,
            systemKey: bert.systemKey,
            linkKey: P256LinkKey()
        )
        #expect(book.greeted(by: bert.id, record: newer.record.encoded, registrations: []).count == 1)
        _ = book.take(pairings: [try pin(bert)])
        #expect(book.directory[bert.id]?.record.name == "Robert")
    }

    /// The device of a pairing is that of its endpoint alone.
    @Test func endpointOfTheSameDeviceIsNotPaired() throws {
        var book = book()
        let second = try Member("Bert's other user", account: AnonymousAccount.id, systemKey: bert.systemKey, linkKey: P256LinkKey())
        _ = book.take(pairings: [try pin(bert)])
        #expect(book.greeted(by: second.id, record: second.record.encoded, registrations: []).isEmpty)
        #expect(!book.isConfirmed(second.id) && Set(book.linkKeys.keys) == [bert.id])
    }

    @Test func recordsThatAreNotValidAreLeftOut() throws {
        var book = book()
        let foreign = try Member("Foreign", account: "account", linkKey: P256LinkKey())
        var forged = try pin(bert)
        forged.record = carl.record.encoded
        var broken = try pin(carl)
        broken.record = [1, 2, 3]
        #expect(book.take(pairings: [try pin(foreign), forged, broken, try pin(own)]).isEmpty)
        #expect(book.directory.endpointIDs.isEmpty && book.linkKeys.isEmpty && book.directory.isEnumerated)
    }
}
