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

    // MARK: Approved devices

    /// The phone knows the PC, which vouches for the TV, which vouches for the tablet.
    private func chain() throws -> (own: Member, pc: Member, tv: Member, tablet: Member, approved: [PeerBook.Approved]) {
        let (own, pc, tv, tablet) = (try Member("Phone"), try Member("PC"), try Member("TV"), try Member("Tablet"))
        var book = PeerBook(of: own, pins: [(pc, .verified)])
        book.beginEnumeration()
        let vouchers = (tv: [try pc.voucher(for: tv)], tablet: [try tv.voucher(for: tablet)])
        // Nothing is stored of a chain that is not complete yet.
        #expect(book.take(.added(tablet.added(vouchers.tablet, registrations: [try tablet.registration(of: "reader")]))).isEmpty)
        #expect(book.take(.added(tv.added(vouchers.tv, registrations: [try tv.registration(of: "player")]))).isEmpty)
        _ = book.take(.added(pc.added()))
        let stored = book.take(.enumerated).compactMap { action -> PeerBook.Approved? in
            guard case .storeApproved(_, let approved) = action else { return nil }
            return approved
        }
        #expect(Set(stored.map(\.endpoint)) == [tv.id, tablet.id])
        // What has not changed is not stored again.
        #expect(book.take(.updated(.init(endpoint: tv.id, presence: Presence(.available, .connected)))).isEmpty)
        return (own, pc, tv, tablet, stored)
    }

    @Test func approvedDevicesAreShownAsStoredWithoutTheRelay() throws {
        let (own, pc, tv, tablet, approved) = try chain()
        for approved in [approved, approved.reversed()] {
            var book = PeerBook(of: own, pins: [(pc, .verified)], approved: approved)
            _ = book.take(.relayLost(at: 5))
            #expect(apps(book, tv) == ["player"] && apps(book, tablet) == ["reader"])
            #expect(book.isKnown(tv) && book.isKnown(tablet) && book.directory[tablet.id]?.trust == .approved)
        }
    }

    /// What is stored proves itself, so whoever writes it gains nothing.
    @Test func approvedDevicesAreKnownOnlyByTheirProof() throws {
        let (own, pc, tv, tablet, approved) = try chain()
        let stranger = try Member("Stranger")
        let forged = [
            PeerBook.Approved(
                endpoint: stranger.id,
                record: stranger.record.encoded,
                vouchers: [try stranger.voucher(for: tv).bytes, try tv.voucher(for: tablet).bytes, [1, 2, 3]],
                registrations: []
            ),
            PeerBook.Approved(endpoint: pc.id, record: [1, 2, 3], vouchers: [], registrations: []),
        ]
        var book = PeerBook(of: own, pins: [(pc, .verified)], approved: approved + forged)
        _ = book.take(.relayLost(at: 5))
        #expect(!book.isConfirmed(stranger.id) && book.record(of: stranger.id) == nil)
        // A link of the chain is revoked, also by an earlier process.
        for revoked in [pc, tv] {
            var book = PeerBook(of: own, pins: [(pc, .verified)], approved: approved, revoked: [revoked.id])
            _ = book.take(.relayLost(at: 5))
            #expect(!book.isConfirmed(tablet.id) && book.directory[tablet.id] == nil && book.directory[revoked.id] == nil)
        }
        _ = book.revoked(tv, try pc.revocation(of: tv.id))
        #expect(!book.isConfirmed(tablet.id))
    }

    @Test func approvedDevicesThatGoOrArePinnedAreForgotten() throws {
        let (own, pc, tv, tablet, approved) = try chain()
        var book = PeerBook(of: own, pins: [(pc, .verified)], approved: approved)
        book.beginEnumeration()
        for added in [pc.added(), tv.added([try pc.voucher(for: tv)], registrations: [try tv.registration(of: "player")])] {
            _ = book.take(.added(added))
        }
        #expect(book.take(.enumerated).contains(.storeApproved(tablet.id, nil)))
        #expect(!book.isConfirmed(tablet.id))
        _ = book.confirm(tv.id)
        #expect(book.take(.updated(.init(endpoint: tv.id, presence: Presence(.available, .connected)))) == [.storeApproved(tv.id, nil)])
        #expect(book.take(.removed(.init(endpoint: pc.id, isRevoked: false))).isEmpty)
    }

    @Test func confirmationStoresTheRegistrations() throws {
        let (own, pc) = (try Member("Phone"), try Member("PC"))
        let registration = try pc.registration(of: "player")
        var book = PeerBook(of: own)
        _ = book.take(.added(pc.added(registrations: [registration])))
        #expect(book.confirm(pc.id)?.contains(.storeRegistrations(pc.id, [registration])) == true)
    }
}
