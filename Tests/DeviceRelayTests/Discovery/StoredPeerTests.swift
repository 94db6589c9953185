// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// What an endpoint knows of the account's devices before it has reached the relay, and what it stores for that.
@Suite struct StoredPeerTests {
    private func apps(_ book: PeerBook, _ member: Member) -> [String]? { book.directory[member.id]?.registrations.map(\.appID) }

    @Test func pinnedDevicesAreShownAsStoredWithoutTheRelay() throws {
        let (own, pc) = (try Member("Phone"), try Member("PC"))
        var book = PeerBook(of: own, pins: [(pc, .verified)], registrations: [try pc.registration(of: "player")])
        #expect(book.directory.endpointIDs.isEmpty)
        #expect(book.take(.relayLost(at: 5)).isEmpty)
        #expect(apps(book, pc) == ["player"])
        #expect(book.directory[pc.id]?.presence == Presence(.unknown, .relayUnreachable, since: 5))
        #expect(book.isKnown(pc) && book.isVerified(pc) && !book.directory.isEnumerated)
        // The relay's list replaces it.
        book.beginEnumeration()
        #expect(book.take(.added(pc.added(registrations: [try pc.registration(of: "editor", version: 2)]))).count == 1)
        _ = book.take(.enumerated)
        #expect(apps(book, pc) == ["editor"])
        #expect(book.directory[pc.id]?.presence.state == .available)
    }

    /// A relay that was restored lists registrations of before. They count, because stored ones set no lower limit of their version.
    @Test func storedRegistrationsDoNotHideAnOlderList() throws {
        let (own, pc) = (try Member("Phone"), try Member("PC"))
        var book = PeerBook(of: own, pins: [(pc, .verified)], registrations: [try pc.registration(of: "player", version: 9)])
        _ = book.take(.relayLost(at: 5))
        book.beginEnumeration()
        _ = book.take(.added(pc.added(registrations: [try pc.registration(of: "player", version: 3)])))
        _ = book.take(.enumerated)
        #expect(apps(book, pc) == ["player"])
        #expect(book.directory.isEnumerated)
    }

    @Test func registrationsThatTheEndpointDidNotSignAreNotShown() throws {
        let (own, pc, other) = (try Member("Phone"), try Member("PC"), try Member("TV"))
        let forged = [try other.registration(of: "forged"), [1, 2, 3], try pc.registration(of: "player")]
        var book = PeerBook(of: own, pins: [(pc, .verified)], registrations: forged)
        _ = book.take(.relayLost(at: 5))
        #expect(apps(book, pc) == ["player"])
    }

    /// The relay may allow more devices than the default limit.
    @Test func allStoredDevicesAreShown() throws {
        let (own, pc, tv) = (try Member("Phone"), try Member("PC"), try Member("TV"))
        var limits = Limits()
        limits[.endpointsPerAccount] = 1
        var book = PeerBook(of: own, pins: [(pc, .verified), (tv, .firstSeen)], limits: limits)
        _ = book.take(.relayLost(at: 5))
        #expect(book.directory.endpointIDs == [pc.id, tv.id].sorted())
        #expect(book.isVerified(pc) && !book.isVerified(tv))
    }

    @Test func revokedDevicesAreNotShown() throws {
        let (own, pc) = (try Member("Phone"), try Member("PC"))
        var book = PeerBook(of: own, pins: [(pc, .verified)], registrations: [try pc.registration(of: "player")], revoked: [pc.id])
        _ = book.take(.relayLost(at: 5))
        #expect(book.directory.endpointIDs.isEmpty)
    }

    @Test func registrationsOfPinnedDevicesAreStoredWhenTheyChange() throws {
        let (own, pc, stranger) = (try Member("Phone"), try Member("PC"), try Member("TV"))
        let (first, second) = (try pc.registration(of: "player"), try pc.registration(of: "player", version: 2))
        var book = PeerBook(of: own, pins: [(pc, .verified)], registrations: [first])
        #expect(book.take(.added(pc.added(registrations: [first]))).isEmpty)
        #expect(book.take(.added(stranger.added(registrations: [try stranger.registration(of: "tv")]))).isEmpty)
        #expect(book.take(.enumerated).isEmpty)
        #expect(book.take(.updated(.init(endpoint: pc.id, registrations: [Blob(second)]))) == [.storeRegistrations(pc.id, [second])])
        #expect(book.take(.updated(.init(endpoint: pc.id, presence: Presence(.available, .connected)))).isEmpty)
        #expect(book.take(.removed(.init(endpoint: pc.id, isRevoked: false))) == [.storeRegistrations(pc.id, [])])
        #expect(book.take(.removed(.init(endpoint: pc.id, isRevoked: false))).isEmpty)
    }

    @Test func deviceThatTheRelayDoesNotListHasNoAppAnyMore() throws {
        let (own, pc) = (try Member("Phone"), try Member("PC"))
        var book = PeerBook(of: own, pins: [(pc, .verified)], registrations: [try pc.registration(of: "player")])
        book.beginEnumeration()
        #expect(book.take(.enumerated) == [.storeRegistrations(pc.id, [])])
    }

    @Test func firstEnumerationStoresPinsBeforeTheirRegistrations() throws {
        let (own, pc) = (try Member("Phone"), try Member("PC"))
        let registration = try pc.registration(of: "player")
        var book = PeerBook(of: own, hasEnumerated: false)
        #expect(book.take(.added(pc.added(registrations: [registration]))).isEmpty)
        #expect(
            book.take(.enumerated) == [
                .pin(pc.id, record: pc.record.encoded, .firstSeen), .storeRegistrations(pc.id, [registration]), .storeEnumeration,
            ]
        )
    }

    @Test func confirmationStoresTheRegistrations() throws {
        let (own, pc) = (try Member("Phone"), try Member("PC"))
        let registration = try pc.registration(of: "player")
        var book = PeerBook(of: own)
        _ = book.take(.added(pc.added(registrations: [registration])))
        #expect(book.confirm(pc.id)?.contains(.storeRegistrations(pc.id, [registration])) == true)
    }
}
