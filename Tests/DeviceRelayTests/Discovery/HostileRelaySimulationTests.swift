// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

/// A relay that says anything in any order, with all that it could have: what honest endpoints have signed, and what keys of its own sign.
@Suite struct HostileRelaySimulationTests {
    @Test(arguments: 0..<Sweep.count(30 as UInt64, full: 1_000)) func noRelayMessageMakesAForgedEndpointKnown(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let own = try Member("Own")
        let inviter = try Member("Inviter")
        let second = try Member("Second", systemKey: inviter.systemKey)
        let (friend, retired) = (try Member("Friend"), try Member("Retired"))
        let fakes = try (0..<3).map { try Member("Fake \($0)") }
        let honest = [own, inviter, second, friend, retired]
        let all = honest + fakes
        // Honest endpoints vouch for honest ones, fakes for all.
        var vouchers: [EndpointID: [Blob<BlobKinds.Voucher>]] = [:]
        for target in all {
            let givers = fakes + (honest.contains { $0.id == target.id } ? [inviter, friend] : [])
            vouchers[target.id] = try givers.filter { $0.id != target.id }.map { try $0.voucher(for: target) }
        }
        var revocations = try fakes.flatMap { fake in try honest.map { try fake.revocation(of: $0.id) } }
        let retiring = try inviter.revocation(of: retired.id)
        revocations += [retiring, try inviter.revocation(of: friend.id, account: "other")]

        let registrations = Dictionary(uniqueKeysWithValues: try all.map { ($0.id, [try $0.registration(of: "app")]) })
        var book = PeerBook(of: own, inviter: inviter)
        var (isRetired, isInviterPinned) = (false, false)
        var stored: [EndpointID: PeerBook.Approved] = [:]
        for step in 0..<300 {
            guard let member = all.randomElement(using: &random) else { continue }
            let given = (vouchers[member.id] ?? []).filter { _ in Bool.random(using: &random) }
            let apps = Bool.random(using: &random) ? registrations[member.id] ?? [] : []
            var actions: [PeerBook.Action] = []
            switch Int.random(in: 0..<12, using: &random) {
            case 0..<5: actions = book.take(.added(member.added(given, registrations: apps)))
            case 5: actions = book.take(.updated(.init(endpoint: member.id, introduction: member.introduction(given))))
            case 6: actions = (try? book.introduced(member.introduction(given), as: member.id).actions) ?? []
            case 7: actions = book.take(.removed(.init(endpoint: member.id, isRevoked: false)))
            case 8, 9:
                let revocation = revocations.randomElement(using: &random)
                let victim = all.first { $0.id == revocation?.payload.endpoint } ?? member
                actions = book.revoked(victim, Bool.random(using: &random) ? revocation : nil)
            case 10: book.beginEnumeration()
            default: actions = book.take(.enumerated)
            }
            for action in actions {
                switch action {
                case .pin(let endpoint, _, let knowledge):
                    #expect(endpoint == inviter.id && knowledge == .verified, "step \(step)")
                    isInviterPinned = true
                case .vouch(let record, _): #expect(record.payload.endpointID == inviter.id, "step \(step)")
                case .storeRevocation(let revocation, let isUnsent):
                    // A fake may revoke only itself, and none of these revocations does.
                    #expect(revocation == retiring && !isUnsent, "step \(step)")
                    isRetired = true
                case .forgetSender(let sender): #expect(sender == retired.id, "step \(step)")
                case .storeEnumeration: Issue.record("a join by a link pins nothing, step \(step)")
                // Only the inviter can be pinned.
                case .storeRegistrations(let endpoint, _): #expect(endpoint == inviter.id, "step \(step)")
                case .storeApproved(let endpoint, let approved):
                    #expect(approved == nil || honest.contains { $0.id == endpoint }, "step \(step)")
                    stored[endpoint] = approved
                case .forgetInviter, .shutOut: break
                }
            }
            for fake in fakes { #expect(!book.isConfirmed(fake.id), "step \(step)") }
            #expect(!isRetired || book.directory[retired.id] == nil && book.isRefused(retired.id), "step \(step)")
            // The next process knows no more than this one, also if the relay has written what is stored.
            if step % 10 == 0 {
                let written = fakes.map { fake in
                    PeerBook.Approved(
                        endpoint: fake.id,
                        record: fake.record.encoded,
                        vouchers: (vouchers[fake.id] ?? []).map(\.bytes),
                        registrations: []
                    )
                }
                let next = PeerBook(
                    of: own,
                    pins: isInviterPinned ? [(inviter, .verified)] : [],
                    approved: stored.values + written,
                    revoked: isRetired ? [retired.id] : []
                )
                for one in fakes + (isRetired ? [retired] : []) { #expect(!next.isConfirmed(one.id), "step \(step)") }
            }
            // Its pin stays; so it is known again as soon as it is listed.
            if isInviterPinned {
                var later = book
                _ = later.take(.added(inviter.added()))
                #expect(later.isVerified(inviter), "step \(step)")
            }
        }
    }
}
