// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// A relay that lists, introduces and revokes what it likes, against what an endpoint believes.
@Suite struct HostileRelayAttackTests {
    private let own: Member
    private let inviter: Member
    private let fake: Member

    init() throws {
        own = try Member("Own")
        inviter = try Member("Inviter")
        fake = try Member("Fake")
    }

    private func joined(by inviter: Member) -> PeerBook { PeerBook(of: own, inviter: inviter) }

    // MARK: Ghosts

    @Test func forgedEndpointListedDuringAJoinByLinkIsNotKnown() throws {
        var book = joined(by: inviter)
        for member in [own, fake, inviter] { _ = book.take(.added(member.added())) }
        #expect(!book.take(.enumerated).contains(.storeEnumeration))
        #expect(book.isKnown(inviter))
        #expect(book.isVerified(inviter))
        #expect(!book.isKnown(fake))
        // Nor when the relay lists it again, or introduces it.
        book.beginEnumeration()
        for member in [own, fake, inviter] { _ = book.take(.added(member.added())) }
        _ = book.take(.enumerated)
        #expect(!book.isKnown(fake))
        #expect(try book.introduced(fake.introduction(), as: fake.id).isNew)
    }

    @Test func onlyTheInviterIsPinnedAndVouchedForOnce() throws {
        var book = joined(by: inviter)
        #expect(book.take(.added(fake.added())).isEmpty)
        let actions = book.take(.added(inviter.added()))
        #expect(
            actions == [
                .pin(inviter.id, record: inviter.record.encoded, .verified), .vouch(inviter.record, invitation: nil), .forgetInviter,
            ]
        )
        #expect(book.take(.added(inviter.added())).isEmpty)
    }

    @Test func forgedEndpointOfAnotherAccountIsNotKnown() throws {
        let friend = try Member("Friend", account: "before")
        let before = PeerBook(of: try Member("Own", account: "before", key: own.key), pins: [(friend, .verified)], hasEnumerated: false)
        var book = before.emptied(for: "account", isOther: true)
        #expect(book.directory.revision >= before.directory.revision)
        #expect(book.knownRecords.isEmpty)
        _ = book.take(.added(fake.added()))
        let actions = book.take(.enumerated)
        #expect(actions.isEmpty)
        #expect(!book.isKnown(fake))
        #expect(book.errorCodes == [.accountChanged])
    }

    @Test func endpointsListedAtAJoinWithoutInviterAreKnownButUnverified() throws {
        var book = PeerBook(of: own, hasEnumerated: false)
        let first = try Member("First")
        _ = book.take(.added(first.added()))
        let actions = book.take(.enumerated)
        #expect(actions == [.pin(first.id, record: first.record.encoded, .firstSeen), .storeEnumeration])
        #expect(book.isKnown(first))
        #expect(!book.isVerified(first))
        _ = book.take(.added(fake.added()))
        #expect(book.take(.enumerated).isEmpty)
        #expect(!book.isKnown(fake))
        // An endpoint that it vouches for gets no higher level than its own.
        let other = try Member("Other")
        _ = book.take(.added(other.added([try first.voucher(for: other)])))
        #expect(book.isKnown(other))
        #expect(!book.isVerified(other))
        // A person compares words.
        let confirmed = book.confirm(first.id)
        #expect(confirmed == [.pin(first.id, record: first.record.encoded, .verified), .vouch(first.record, invitation: nil)])
        #expect(book.isVerified(first))
        #expect(book.isVerified(other))
    }

    @Test func endpointWithACopiedSystemKeyIsNotListed() throws {
        var book = PeerBook(of: own, pins: [(inviter, .verified)])
        _ = book.take(.added(inviter.added()))
        // The relay copies the device's system key and its signature into a record that it signs.
        let key = P256SigningKey()
        let foreign = try Member("Fake", key: key)
        let signature = inviter.record.payload.systemSignature
        let copied = try foreign.record.encoded(
            replacing: [
                "systemKey": .data(inviter.systemKey.publicKey.spki), "systemSignature": .data(signature),
            ],
            signedBy: key
        )
        _ = book.take(
            .added(
                .init(
                    endpoint: foreign.id,
                    introduction: Introduction(record: Blob(copied)),
                    registrations: [],
                    presence: Presence(.available, .connected)
                )
            )
        )
        #expect(book.directory[foreign.id] == nil)
        #expect(!book.isConfirmed(foreign.id))
        // The holder of the system key has it signed.
        let second = try Member("Second", systemKey: inviter.systemKey)
        _ = book.take(.added(second.added()))
        #expect(book.isKnown(second))
        #expect(book.isVerified(second))
    }

    // MARK: Chains

    @Test func voucherChainHasTheLevelOfItsWeakestVoucher() throws {
        let (first, second, third) = (try Member("First"), try Member("Second"), try Member("Third"))
        var book = PeerBook(of: own, pins: [(inviter, .verified)])
        // In the order in which they are least use.
        _ = book.take(.added(third.added([try second.voucher(for: third)])))
        _ = book.take(.added(second.added([try first.voucher(for: second, .firstSeen)])))
        #expect(!book.isKnown(third))
        _ = book.take(.added(first.added([try inviter.voucher(for: first)])))
        _ = book.take(.added(inviter.added()))
        #expect(book.isVerified(first))
        for member in [second, third] {
            #expect(book.isKnown(member))
            #expect(!book.isVerified(member))
        }
        // A verified voucher raises the rest of the chain too.
        _ = book.take(.updated(.init(endpoint: second.id, introduction: second.introduction([try first.voucher(for: second)]))))
        #expect(book.isVerified(third))
        // A ring of fakes that vouch for each other leads nowhere.
        let other = try Member("Other fake")
        _ = book.take(.added(fake.added([try other.voucher(for: fake)])))
        _ = book.take(.added(other.added([try fake.voucher(for: other)])))
        #expect(!book.isKnown(fake) && !book.isKnown(other))
    }

    @Test func voucherChainEndsAtARevokedEndpoint() throws {
        let (first, second) = (try Member("First"), try Member("Second"))
        var book = PeerBook(of: own, pins: [(inviter, .verified)])
        _ = book.take(.added(inviter.added()))
        _ = book.take(.added(first.added([try inviter.voucher(for: first)])))
        _ = book.take(.added(second.added([try first.voucher(for: second)], joining: Joining(time: 5, invitedBy: first.id))))
        #expect(book.isKnown(second))
        #expect(book.directory[second.id]?.publicJoining?.isInviterRevoked == false)
        let revocation = try inviter.revocation(of: first.id)
        #expect(
            book.revoked(first, revocation) == [
                .shutOut(first.id), .forgetSender(first.id), .storeRevocation(revocation, isUnsent: false),
            ]
        )
        #expect(!book.isKnown(second))
        #expect(book.directory[second.id]?.publicJoining?.isInviterRevoked == true)
        // Permanently, on every path.
        #expect(book.take(.added(first.added([try inviter.voucher(for: first)]))).isEmpty)
        #expect(book.directory[first.id] == nil)
        #expect(book.confirm(first.id) == nil)
        #expect(throws: PeerBook.EndpointRevoked.self) { try book.introduced(first.introduction(), as: first.id) }
        // With a newer record too, and after a restart.
        var again = PeerBook(of: own, pins: [(inviter, .verified), (first, .verified)], revoked: [first.id])
        let newer = try Member("First", version: 2, key: first.key, systemKey: first.systemKey)
        #expect(again.take(.added(newer.added())).isEmpty)
        #expect(again.directory[first.id] == nil)
    }

    @Test func revokedInviterIsNotPinned() throws {
        var book = joined(by: inviter)
        let other = try Member("Other")
        _ = book.take(.added(other.added()))
        _ = book.confirm(other.id)
        #expect(book.revoked(inviter, try other.revocation(of: inviter.id)).contains(.forgetInviter))
        #expect(book.take(.added(inviter.added())).isEmpty)
        #expect(!book.isConfirmed(inviter.id))
    }

    // MARK: Revocations

    /// None of these is signed by a known endpoint.
    @Test(arguments: ["by a fake", "forged", "of another account", "of another endpoint", "without"])
    func revocationNotSignedByAKnownEndpointIsNotPermanent(_ kind: String) throws {
        let victim = try Member("Victim")
        var book = PeerBook(of: own, pins: [(inviter, .verified), (victim, .verified)])
        for member in [own, inviter, victim, fake] { _ = book.take(.added(member.added())) }
        // Known by the victim's word.
        let friend = try Member("Friend")
        let introduced = friend.added([try victim.voucher(for: friend)])
        _ = book.take(.added(introduced))
        _ = book.take(.enumerated)
        #expect(book.isKnown(friend))
        let revocation: Signed<Revocation>? =
            switch kind {
            case "by a fake": try fake.revocation(of: victim.id)
            // Signed by the fake in the inviter's name.
            case "forged": try Signed(Revocation(of: victim.id, by: inviter.id, account: "account", time: 1), key: fake.key)
            case "of another account": try inviter.revocation(of: victim.id, account: "other")
            case "of another endpoint": try inviter.revocation(of: fake.id)
            default: nil
            }
        // No pin is removed, and no lane, which distinguishes old commands from new ones.
        #expect(book.revoked(victim, revocation) == [.shutOut(victim.id), .storeApproved(friend.id, nil)])
        #expect(book.directory[victim.id] == nil)
        #expect(throws: PeerBook.EndpointRevoked.self) { try book.introduced(victim.introduction(), as: victim.id) }
        #expect(book.errorCodes == [.revokedByRelay])
        let confirmed = book.confirm(victim.id)
        #expect(confirmed == nil)
        #expect(!book.isKnown(friend))
        _ = book.take(.enumerated)
        #expect(book.isRefused(victim.id))
        // A repetition changes nothing.
        #expect(book.revoked(victim, revocation).isEmpty)
        // The relay lists it again: its state is the same as before.
        book.beginEnumeration()
        for member in [own, inviter, victim] { _ = book.take(.added(member.added())) }
        _ = book.take(.added(introduced))
        _ = book.take(.enumerated)
        #expect(book.isKnown(victim))
        #expect(book.isVerified(victim))
        #expect(book.isKnown(friend))
    }

    @Test func revocationIsStoredWhenItsSignerIsKnown() throws {
        let victim = try Member("Victim")
        var book = PeerBook(of: own, pins: [(victim, .verified)])
        // The revocation comes before its signer is listed, and the signer is known by a voucher chain only.
        let revocation = try inviter.revocation(of: victim.id)
        #expect(book.revoked(victim, revocation) == [.shutOut(victim.id)])
        let voucher = try own.voucher(for: inviter)
        for member in [own, inviter] { _ = book.take(.added(member.added(member.id == inviter.id ? [voucher] : []))) }
        #expect(book.take(.enumerated).contains(.storeRevocation(revocation, isUnsent: false)))
        // Watchers get no error for a doubt that the enumeration has resolved.
        #expect(book.errorCodes.isEmpty)
        #expect(book.take(.added(victim.added())).isEmpty)
    }

    @Test func endpointMayRevokeItselfAndEndpointsOfItsDevice() throws {
        let second = try Member("Second", systemKey: fake.systemKey)
        for signer in [fake, second] {
            // Neither is known: their revocations of others are not stored, nor those of each other.
            var book = PeerBook(of: own, pins: [(inviter, .verified)])
            for member in [inviter, fake, second] { _ = book.take(.added(member.added())) }
            #expect(book.revoked(inviter, try signer.revocation(of: inviter.id)) == [.shutOut(inviter.id)])
            let revocation = try signer.revocation(of: fake.id)
            #expect(book.revoked(fake, revocation) == [.shutOut(fake.id)])
            #expect(book.isRefused(fake.id))
            // The revocation of a known device is permanent.
            var other = PeerBook(of: own, pins: [(fake, .verified)])
            for member in [fake, second] { _ = other.take(.added(member.added())) }
            #expect(other.revoked(fake, revocation).contains(.storeRevocation(revocation, isUnsent: false)))
        }
    }

    @Test func revocationsSignedByRevokedEndpointsAreNotStored() throws {
        let thief = try Member("Thief")
        var book = PeerBook(of: own, pins: [(inviter, .verified), (thief, .verified)])
        for member in [inviter, thief] { _ = book.take(.added(member.added())) }
        _ = book.revoked(thief, try inviter.revocation(of: thief.id))
        #expect(book.revoked(inviter, try thief.revocation(of: inviter.id)) == [.shutOut(inviter.id)])
        // Nor does one of the same device, while the relay says that it is revoked.
        let sibling = try Member("Sibling", systemKey: inviter.systemKey)
        var other = PeerBook(of: own, pins: [(inviter, .verified), (sibling, .verified)])
        for member in [inviter, sibling] { _ = other.take(.added(member.added())) }
        _ = other.revoked(sibling, nil)
        #expect(other.revoked(inviter, try sibling.revocation(of: inviter.id)) == [.shutOut(inviter.id)])
    }

    @Test func ownRevocationIsEnforcedWithoutTheRelay() throws {
        var book = PeerBook(of: own, pins: [(inviter, .verified)])
        _ = book.take(.added(inviter.added()))
        let revocation = try own.revocation(of: inviter.id)
        #expect(
            book.revoke(revocation) == [
                .shutOut(inviter.id), .forgetSender(inviter.id), .storeRevocation(revocation, isUnsent: true),
            ]
        )
        #expect(book.directory[inviter.id] == nil)
        #expect(book.take(.added(inviter.added())).isEmpty)
        #expect(book.knownRecords.isEmpty)
        // Never itself.
        #expect(book.revoke(try own.revocation(of: own.id)).isEmpty)
        #expect(book.revoked(own, try inviter.revocation(of: own.id)).isEmpty)
        #expect(!book.isRefused(own.id))
    }

    @Test func revocationsByTheRelayAreBounded() throws {
        var book = PeerBook(of: own, pins: [(inviter, .verified)])
        _ = book.take(.added(inviter.added()))
        let made = PeerBook.maximumRevocations + 10
        for _ in 0..<made {
            let endpoint = EndpointID(digest: Digest256(hashing: (0..<8).map { _ in UInt8.random(in: 0 ... .max) }))
            _ = book.take(.removed(.init(endpoint: endpoint, isRevoked: true)))
        }
        #expect(book.refusedCount == PeerBook.maximumRevocations)
        // A person's own decision still counts.
        _ = book.revoke(try own.revocation(of: inviter.id))
        #expect(book.isRefused(inviter.id))
    }

    // MARK: Vouchers of an inviter

    @Test func endpointVouchesForKnownEndpointsOnly() throws {
        let (first, second) = (try Member("First"), try Member("Second"))
        var book = PeerBook(of: own, pins: [(inviter, .firstSeen), (first, .verified)])
        _ = book.take(.added(own.added()))
        _ = book.take(.added(inviter.added()))
        _ = book.take(.added(first.added([try own.voucher(for: first)])))
        _ = book.take(.added(second.added([try first.voucher(for: second)])))
        _ = book.take(.added(fake.added()))
        // It has vouched for the first already.
        #expect(Set(book.unvouched.map(\.payload.endpointID)) == [inviter.id, second.id])
        #expect(book.knowledge(of: inviter.id) == .firstSeen)
        #expect(book.knowledge(of: second.id) == .verified)
        // Its voucher has a lower level than its knowledge.
        _ = book.take(
            .updated(.init(endpoint: inviter.id, introduction: inviter.introduction([try own.voucher(for: inviter, .firstSeen)])))
        )
        #expect(book.unvouched.map(\.payload.endpointID) == [second.id])
        _ = book.confirm(inviter.id)
        #expect(Set(book.unvouched.map(\.payload.endpointID)) == [inviter.id, second.id])
    }
}

extension PeerBook {
    /// The errors that its watchers get.
    fileprivate var errorCodes: [RemoteSystemWatcherError.Code] {
        var iteration = DeviceDirectory.Iteration()
        var codes: [RemoteSystemWatcherError.Code] = []
        while let event = iteration.next(in: directory) {
            if case .error(let error) = event { codes.append(error.code) }
        }
        return codes
    }
}

extension Signed<EndpointRecord> {
    /// The record with other fields, signed anew.
    fileprivate func encoded(replacing fields: [String: ValueSet.Value], signedBy key: P256SigningKey) throws -> [UInt8] {
        var body = try ValueSetEncoder().encode(payload)
        for (name, value) in fields { body[name] = value }
        let bytes = try body.encodedBytes()
        let signature = try key.sign(bytes, for: EndpointRecord.purpose)
        return try (["body": .data(bytes), "signature": .data(signature)] as ValueSet).encodedBytes()
    }
}
