// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// What devices tell each other without the relay, and what the relay's list does to it.
@Suite struct GreetedPeerTests {
    private let own: Member
    private let pc: Member

    init() throws { (own, pc) = (try Member("Phone"), try Member("PC")) }

    private func apps(_ book: PeerBook) -> [String]? { book.directory[pc.id]?.registrations.map(\.appID) }

    @Test func listOfTheRelayKeepsWhatTheNetworkShows() {
        var book = PeerBook(of: own, pins: [(pc, .verified)])
        _ = book.take(.relayLost(at: 5))
        let near = Presence(.discoveringAvailability, .nearby)
        _ = book.take(.presence(pc.id, near, on: .nearby))
        book.beginEnumeration()
        _ = book.take(.added(pc.added()))
        _ = book.take(.enumerated)
        #expect(book.directory[pc.id]?.presence.reason == .connected)
        _ = book.take(.relayLost(at: 9))
        #expect(book.directory[pc.id]?.presence == near)
    }

    @Test func greetingIsTakenWholeOrNotAtAll() throws {
        var book = PeerBook(of: own, pins: [(pc, .verified)], registrations: [try pc.registration(of: "player")])
        _ = book.take(.relayLost(at: 5))
        let newer = try Member("Study", version: 7, key: pc.key, systemKey: pc.systemKey)
        let foreign = try Member("TV").registration(of: "forged")
        #expect(book.greeted(by: pc.id, record: newer.record.encoded, registrations: [foreign]).isEmpty)
        #expect(book.directory[pc.id]?.record.name == "PC" && apps(book) == ["player"])
        let actions = book.greeted(by: pc.id, record: newer.record.encoded, registrations: [try pc.registration(of: "editor", version: 2)])
        #expect(actions.count == 2)
        #expect(book.directory[pc.id]?.record.name == "Study" && apps(book) == ["editor"])
        // An older record, and that of another endpoint, change nothing.
        #expect(book.greeted(by: pc.id, record: pc.record.encoded, registrations: []).isEmpty)
        #expect(book.greeted(by: pc.id, record: own.record.encoded, registrations: []).isEmpty)
        #expect(book.directory[pc.id]?.record.name == "Study" && apps(book) == ["editor"])
    }

    @Test func strangerTellsNothing() throws {
        let stranger = try Member("Stranger")
        var book = PeerBook(of: own, pins: [(pc, .verified)])
        #expect(book.greeted(by: stranger.id, record: stranger.record.encoded, registrations: []).isEmpty)
        #expect(book.record(of: stranger.id) == nil)
        let heard = book.heard([try stranger.revocation(of: pc.id).encoded])
        #expect(heard.actions.isEmpty && !heard.areDecided && !book.isRefused(pc.id))
    }

    @Test func revocationsCountByTheirSigner() throws {
        let (tv, lamp) = (try Member("TV"), try Member("Lamp"))
        var book = PeerBook(of: own, pins: [(pc, .verified), (tv, .firstSeen), (lamp, .verified)])
        // Nobody has verified the TV: what it says holds until the relay lists the device.
        let byTV = book.heard([try tv.revocation(of: lamp.id).encoded])
        #expect(byTV.areDecided && book.isShutOut(lamp.id) && !book.isRevoked(lamp.id))
        _ = book.take(.added(lamp.added()))
        #expect(!book.isRefused(lamp.id))
        let byPC = book.heard([try pc.revocation(of: lamp.id).encoded])
        #expect(byPC.areDecided && book.isRevoked(lamp.id))
        #expect(byPC.actions.contains { if case .storeRevocation = $0 { true } else { false } })
        // What is known already is decided, and changes nothing.
        let again = book.heard([try pc.revocation(of: lamp.id).encoded, [1, 2, 3]])
        #expect(again.actions.isEmpty && again.areDecided)
        // Nobody revokes this endpoint here.
        #expect(book.heard([try pc.revocation(of: own.id).encoded]).actions.isEmpty && !book.isRefused(own.id))
    }

    /// The relay must not bring back a device that somebody verified has revoked, whoever else said so before.
    @Test func revocationByAVerifiedDeviceCountsAfterOneThatDoesNot() throws {
        let (tv, lamp) = (try Member("TV"), try Member("Lamp"))
        var book = PeerBook(of: own, pins: [(pc, .verified), (tv, .firstSeen), (lamp, .verified)])
        #expect(book.heard([try tv.revocation(of: lamp.id).encoded]).areDecided && book.isShutOut(lamp.id))
        let heard = book.heard([try pc.revocation(of: lamp.id).encoded])
        #expect(heard.areDecided && book.isRevoked(lamp.id))
        #expect(heard.actions.contains { if case .storeRevocation = $0 { true } else { false } })
        _ = book.take(.added(lamp.added()))
        #expect(book.isRefused(lamp.id))
    }

    /// The signer's own revocation is known: nothing that it says will ever count.
    @Test func revocationByARevokedDeviceIsDecided() throws {
        let (tv, lamp) = (try Member("TV"), try Member("Lamp"))
        var book = PeerBook(of: own, pins: [(pc, .verified), (tv, .verified), (lamp, .verified)])
        _ = book.heard([try pc.revocation(of: tv.id).encoded])
        let heard = book.heard([try tv.revocation(of: lamp.id).encoded])
        #expect(heard.areDecided && heard.actions.isEmpty && !book.isRefused(lamp.id))
    }

    /// The relay has not met the PC since it told this device something newer.
    @Test func deviceThatToldSomethingNewerStaysListed() throws {
        var book = PeerBook(of: own, pins: [(pc, .verified)])
        _ = book.take(.relayLost(at: 5))
        let newer = try Member("Study", version: 7, key: pc.key, systemKey: pc.systemKey, linkKey: P256LinkKey())
        let app = try pc.registration(of: "editor", version: 5)
        #expect(!book.greeted(by: pc.id, record: newer.record.encoded, registrations: [app]).isEmpty)
        book.beginEnumeration()
        _ = book.take(.added(pc.added(registrations: [try pc.registration(of: "editor", version: 4)])))
        _ = book.take(.enumerated)
        #expect(book.directory[pc.id]?.record.name == "Study" && apps(book) == ["editor"])
        #expect(book.directory[pc.id]?.presence.reason == .connected)
    }

    /// A known device that lies about devices that nobody has seen takes no stored place.
    @Test func revocationsOfUnknownEndpointsAreBoundedAndNotStored() throws {
        var book = PeerBook(of: own, pins: [(pc, .verified)])
        let strangers = try (0..<300).map { number in
            try pc.revocation(of: EndpointID(digest: Digest256(hashing: Array("\(number)".utf8)))).encoded
        }
        let heard = book.heard(strangers)
        #expect(!heard.areDecided && !heard.actions.contains { if case .storeRevocation = $0 { true } else { false } })
        #expect(book.refusedCount == PeerBook.maximumRevokedStrangers)
        let lamp = try Member("Lamp")
        _ = book.take(.added(lamp.added()))
        #expect(book.heard([try pc.revocation(of: lamp.id).encoded]).areDecided && book.isRevoked(lamp.id))
    }
}
