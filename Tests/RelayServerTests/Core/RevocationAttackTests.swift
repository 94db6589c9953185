// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// An unapproved endpoint tries to remove others, or to fill the account.
@Suite struct RevocationAttackTests {
    /// An account whose first endpoint is the phone's; the PC is approved, the newcomer is not.
    private struct Home {
        let world: CoreWorld
        let phone = TestDevice(subject: "me")
        let pc = TestDevice(subject: "me")
        let newcomer = TestDevice(subject: "me")
        let phoneHost, pcHost, newcomerHost: Session
        var account: String { phoneHost.account }

        init(limits: Limits = Limits()) async throws {
            world = try await CoreWorld(limits: limits)
            phoneHost = try await world.open(phone)
            pcHost = try await world.open(pc)
            newcomerHost = try await world.open(newcomer)
            #expect(try await phoneHost.send(phone.approval(of: pc, account: phoneHost.account)).map(\.isOK) == [true])
        }

        func isThere(_ device: TestDevice) async throws -> Bool {
            try await world.store.base.transact { store in
                let (isThere, isRevoked) = (try store.endpoint(device.id) != nil, try store.revocation(of: device.id) != nil)
                #expect(isThere != isRevoked)
                return isThere
            }
        }

        func revoke(_ other: TestDevice, by device: TestDevice, on host: Session) async throws -> ControlErrorCode? {
            let answer = try await host.send(device.revocation(of: other.id, account: account))
            #expect(answer.contains { $0.isOK || $0.failure != nil })
            return answer.lazy.compactMap(\.failure?.code).first
        }
    }

    @Test func aNewcomerCannotRevokeAnotherDevice() async throws {
        let home = try await Home()
        for victim in [home.phone, home.pc] {
            #expect(try await home.revoke(victim, by: home.newcomer, on: home.newcomerHost) == .notEstablished)
            #expect(try await home.isThere(victim))
        }
        #expect(home.phoneHost.peer.closeCode == nil)
        #expect(home.pcHost.peer.closeCode == nil)
        // A known endpoint can, and so can an approved one.
        #expect(try await home.revoke(home.newcomer, by: home.pc, on: home.pcHost) == nil)
        #expect(home.newcomerHost.peer.closeCode == 1008)
        #expect(try await home.isThere(home.newcomer) == false)
    }

    /// A newcomer stays not established, also with vouchers of other newcomers.
    @Test func newcomersCannotEstablishEachOther() async throws {
        let home = try await Home()
        let other = TestDevice(subject: "me")
        let otherHost = try await home.world.open(other)
        #expect(try await home.newcomerHost.send(home.newcomer.approval(of: other, account: home.account)).first?.isOK == true)
        #expect(try await otherHost.send(other.approval(of: home.newcomer, account: home.account)).first?.isOK == true)
        #expect(try await home.revoke(home.pc, by: other, on: otherHost) == .notEstablished)
        #expect(try await home.revoke(home.pc, by: home.newcomer, on: home.newcomerHost) == .notEstablished)
        // What is vouched for later makes the chain whole.
        #expect(try await home.phoneHost.send(home.phone.approval(of: home.newcomer, account: home.account)).first?.isOK == true)
        #expect(try await home.revoke(home.pc, by: other, on: otherHost) == nil)
    }

    @Test func firstSeenVoucherDoesNotEstablish() async throws {
        let home = try await Home()
        let seen = try home.phone.approval(of: home.newcomer, account: home.account, knowledge: .firstSeen)
        #expect(try await home.phoneHost.send(seen).first?.isOK == true)
        #expect(try await home.revoke(home.pc, by: home.newcomer, on: home.newcomerHost) == .notEstablished)
    }

    @Test func forgedVoucherDoesNotEstablish() async throws {
        let home = try await Home()
        let (account, newcomer, phone) = (home.account, home.newcomer, home.phone)
        func approval(by signer: TestDevice, says voucher: Voucher, of endpoint: TestDevice? = nil) throws -> EndpointMessage {
            let signed = try Signed(voucher, key: signer.identityKey)
            return .endpointApprove(.init(ref: testRef(), endpoint: (endpoint ?? newcomer).id, voucher: Blob(signed.encoded)))
        }
        let record = try newcomer.record(account)
        let other = TestDevice(subject: "me")
        let elsewhere = try Signed(Voucher(by: phone.id, for: record, time: 1), key: phone.identityKey)
            .encoded(replacing: ["account": "elsewhere"], signedBy: phone.identityKey)
        let forged: [(Session, EndpointMessage)] = [
            // The phone's name under the newcomer's signature, and the phone's own voucher on another one's channel.
            (home.newcomerHost, try approval(by: newcomer, says: Voucher(by: phone.id, for: record, time: 1))),
            (home.newcomerHost, try phone.approval(of: newcomer, account: account)),
            // For a record that the relay has not, of another endpoint, account or version.
            (home.phoneHost, try approval(by: phone, says: Voucher(by: phone.id, for: try other.record(account), time: 1))),
            (home.phoneHost, try approval(by: phone, says: Voucher(by: phone.id, for: try newcomer.record("elsewhere"), time: 1))),
            (home.phoneHost, try phone.approval(of: newcomer, account: account, version: 2)),
            (home.phoneHost, .endpointApprove(.init(ref: testRef(), endpoint: newcomer.id, voucher: Blob(elsewhere)))),
            (home.phoneHost, .endpointApprove(.init(ref: testRef(), endpoint: newcomer.id, voucher: Blob([1, 2, 3])))),
        ]
        for (host, message) in forged {
            let code = try #require(try await host.send(message).first?.failure?.code)
            #expect([.signatureInvalid, .recordOutdated, .malformed].contains(code), "\(code)")
        }
        #expect(try await home.world.store.base.transact { try $0.vouchers(for: newcomer.id) }.isEmpty)
        #expect(try await home.revoke(home.pc, by: newcomer, on: home.newcomerHost) == .notEstablished)
    }

    @Test func aForgedOrForeignRevocationIsRefused() async throws {
        let home = try await Home()
        let (account, phone, pc, newcomer) = (home.account, home.phone, home.pc, home.newcomer)
        func message(_ revocation: Revocation, signedBy signer: TestDevice, of endpoint: EndpointID) throws -> EndpointMessage {
            let signed = try Signed(revocation, key: signer.identityKey)
            return .endpointRevoke(.init(ref: testRef(), endpoint: endpoint, revocation: Blob(signed.encoded)))
        }
        let genuine = Revocation(of: pc.id, by: phone.id, account: account, time: 1)
        let cases: [(Session, EndpointMessage, ControlErrorCode)] = [
            // The phone's own statement, said by the newcomer; and in the phone's name.
            (home.newcomerHost, try message(genuine, signedBy: phone, of: pc.id), .signatureInvalid),
            (home.newcomerHost, try message(genuine, signedBy: newcomer, of: pc.id), .signatureInvalid),
            // For another endpoint than the request's, for another account, and no statement at all.
            (home.phoneHost, try message(genuine, signedBy: phone, of: newcomer.id), .signatureInvalid),
            (
                home.phoneHost,
                try message(Revocation(of: pc.id, by: phone.id, account: "elsewhere", time: 1), signedBy: phone, of: pc.id),
                .signatureInvalid
            ),
            (home.phoneHost, .endpointRevoke(.init(ref: testRef(), endpoint: pc.id, revocation: Blob([1, 2, 3]))), .malformed),
        ]
        for (host, message, code) in cases { #expect(try await host.send(message).map(\.failure?.code) == [code]) }
        for device in [phone, pc, newcomer] { #expect(try await home.isThere(device)) }
    }

    /// An endpoint belongs to a device only with the device's key.
    @Test func endpointIsEstablishedByItsDevice() async throws {
        let home = try await Home()
        let sibling = TestDevice(subject: "me", systemKey: home.newcomer.systemKey)
        let siblingHost = try await home.world.open(sibling)
        #expect(try await home.revoke(home.pc, by: sibling, on: siblingHost) == .notEstablished)
        // About its own device it may say so.
        #expect(try await home.revoke(home.newcomer, by: sibling, on: siblingHost) == nil)
        // Another app on a device that is known is known.
        let app = TestDevice(subject: "me", systemKey: home.pc.systemKey)
        let appHost = try await home.world.open(app)
        #expect(try await home.revoke(sibling, by: app, on: appHost) == nil)
    }

    @Test func recordWithACopiedDeviceKeyIsRejected() async throws {
        let home = try await Home()
        let thief = TestDevice(subject: "me")
        let known = try home.pc.record(home.account).payload
        // The device's key and its signature, copied from the record of its endpoint.
        let forged = try thief.record(home.account).encoded(
            replacing: ["systemKey": .data(known.systemKey.spki), "systemSignature": .data(known.systemSignature)],
            signedBy: thief.identityKey
        )
        var hello = try thief.hello(home.account)
        hello.record = try Unverified(decoding: forged)
        #expect(hello.record.payload.systemID == known.systemID)
        #expect(try await home.world.connect(hello).rejection?.code == .recordInvalid)
    }

    @Test func endpointStaysEstablishedWhenItsVoucherGiverIsRevoked() async throws {
        let home = try await Home()
        #expect(try await home.revoke(home.phone, by: home.pc, on: home.pcHost) == nil)
        #expect(try await home.revoke(home.newcomer, by: home.pc, on: home.pcHost) == nil)
    }

    /// A thief's endpoint, which a stolen device let in, is established no more once that device is revoked.
    @Test func endpointThatARevokedDeviceLetInCannotRevoke() async throws {
        let home = try await Home()
        #expect(try await home.pcHost.send(home.pc.approval(of: home.newcomer, account: home.account)).first?.isOK == true)
        #expect(try await home.revoke(home.pc, by: home.phone, on: home.phoneHost) == nil)
        #expect(try await home.revoke(home.phone, by: home.newcomer, on: home.newcomerHost) == .notEstablished)
        #expect(try await home.isThere(home.phone))
        // Approved by the one that is left, it is established again.
        #expect(try await home.phoneHost.send(home.phone.approval(of: home.newcomer, account: home.account)).first?.isOK == true)
        #expect(try await home.revoke(home.phone, by: home.newcomer, on: home.newcomerHost) == nil)
    }

    /// The same with a revocation by the operator, when no other device could revoke it.
    @Test func endpointLetInCannotRevokeAfterOperatorRevocation() async throws {
        let home = try await Home()
        // The phone was the first: that the stolen PC vouches for it takes nothing from it.
        #expect(try await home.pcHost.send(home.pc.approval(of: home.phone, account: home.account)).first?.isOK == true)
        #expect(try await home.pcHost.send(home.pc.approval(of: home.newcomer, account: home.account)).first?.isOK == true)
        let revocation = try #require(try await home.world.core.revoke(home.pc.id))
        #expect(revocation.revoked.map(\.id) == [home.pc.id])
        #expect(revocation.letIn.map(\.row.id) == [home.newcomer.id])
        #expect(revocation.letIn.map(\.row.isEstablished) == [false])
        #expect(revocation.letIn.map(\.isConnected) == [true])
        #expect(try await home.revoke(home.phone, by: home.newcomer, on: home.newcomerHost) == .notEstablished)
        #expect(try await home.revoke(home.newcomer, by: home.phone, on: home.phoneHost) == nil)
    }

    /// The account's first device has left. The owner's remaining device let the stolen one in, which vouches for it.
    @Test(arguments: [false, true]) func stolenDeviceTakesNothingFromItsInviter(withLetIn: Bool) async throws {
        let home = try await Home()
        #expect(try await home.revoke(home.phone, by: home.phone, on: home.phoneHost) == nil)
        let stolen = home.newcomer
        #expect(try await home.pcHost.send(home.pc.approval(of: stolen, account: home.account)).first?.isOK == true)
        #expect(try await home.newcomerHost.send(stolen.approval(of: home.pc, account: home.account)).first?.isOK == true)
        let revocation = try #require(try await home.world.core.revoke(stolen.id, withLetIn: withLetIn))
        #expect(revocation.revoked.map(\.id) == [stolen.id])
        #expect(revocation.letIn.isEmpty)
        #expect(try await home.isThere(home.pc))
        let other = TestDevice(subject: "me")
        _ = try await home.world.open(other)
        #expect(try await home.revoke(other, by: home.pc, on: home.pcHost) == nil)
    }

    /// The same after the owner's device has revoked the first one, and has then revoked the stolen one itself.
    @Test func deviceThatRevokedTheFirstOneDependsOnNoOther() async throws {
        let home = try await Home()
        #expect(try await home.revoke(home.phone, by: home.pc, on: home.pcHost) == nil)
        let (stolen, other) = (home.newcomer, TestDevice(subject: "me"))
        #expect(try await home.pcHost.send(home.pc.approval(of: stolen, account: home.account)).first?.isOK == true)
        #expect(try await home.newcomerHost.send(stolen.approval(of: home.pc, account: home.account)).first?.isOK == true)
        let host = try await home.world.open(other)
        #expect(try await home.newcomerHost.send(stolen.approval(of: other, account: home.account)).first?.isOK == true)
        let revocation = try #require(try await home.world.core.revoke(stolen.id))
        #expect(revocation.letIn.map(\.row.id) == [other.id])
        #expect(try await home.revoke(home.pc, by: other, on: host) == .notEstablished)
        #expect(try await home.revoke(other, by: home.pc, on: home.pcHost) == nil)
    }

    /// A device between two others leaves. The third one stays, whatever becomes of a fourth.
    @Test func deviceStaysWhenTheOneThatLetItInHasLeft() async throws {
        let home = try await Home()
        let stolen = TestDevice(subject: "me")
        let host = try await home.world.open(stolen)
        #expect(try await home.pcHost.send(home.pc.approval(of: home.newcomer, account: home.account)).first?.isOK == true)
        #expect(try await home.revoke(home.pc, by: home.pc, on: home.pcHost) == nil)
        #expect(try await home.newcomerHost.send(home.newcomer.approval(of: stolen, account: home.account)).first?.isOK == true)
        #expect(try await host.send(stolen.approval(of: home.newcomer, account: home.account)).first?.isOK == true)
        let revocation = try #require(try await home.world.core.revoke(stolen.id, withLetIn: true))
        #expect(revocation.revoked.map(\.id) == [stolen.id])
        #expect(try await home.isThere(home.newcomer))
    }

    /// All that a chain of invitations and vouchers of a stolen device let in goes with it, and nothing else does.
    @Test func operatorRevokesADeviceAndAllThatItLetIn() async throws {
        let home = try await Home()
        var (invited, invitedByIt) = (TestDevice(subject: "me"), TestDevice(subject: "me"))
        (invited.inviter, invitedByIt.inviter) = (home.pc.id, invited.id)
        let vouchedFor = TestDevice(subject: "me")
        let own = TestDevice(subject: "me")
        var hosts: [Session] = []
        for device in [invited, invitedByIt, vouchedFor, own] { hosts.append(try await home.world.open(device)) }
        #expect(try await home.pcHost.send(home.pc.approval(of: invited, account: home.account)).first?.isOK == true)
        #expect(try await hosts[0].send(invited.approval(of: vouchedFor, account: home.account)).first?.isOK == true)
        for device in [own, home.newcomer] {
            #expect(try await home.phoneHost.send(home.phone.approval(of: device, account: home.account)).first?.isOK == true)
        }
        let revocation = try #require(try await home.world.core.revoke(home.pc.id, withLetIn: true))
        let gone = [home.pc, invited, invitedByIt, vouchedFor]
        #expect(Set(revocation.revoked.map(\.id)) == Set(gone.map(\.id)))
        #expect(revocation.letIn.isEmpty)
        for device in gone { #expect(try await home.isThere(device) == false) }
        #expect(hosts.prefix(3).allSatisfy { $0.peer.closeCode == 1008 })
        for device in [home.phone, home.newcomer, own] { #expect(try await home.isThere(device)) }
        #expect(try await home.revoke(home.newcomer, by: own, on: hosts[3]) == nil)
    }

    /// The operator learns of the others after the device is gone. What it had vouched for is not known then, whom it had invited is.
    @Test func operatorRevokesInvitedEndpointsLater() async throws {
        let home = try await Home()
        var invited = TestDevice(subject: "me")
        invited.inviter = home.pc.id
        _ = try await home.world.open(invited)
        #expect(try await home.world.core.revoke(home.pc.id)?.letIn.map(\.row.id) == [invited.id])
        let later = try #require(try await home.world.core.revoke(home.pc.id, withLetIn: true))
        #expect(later.revoked.map(\.id) == [invited.id])
        #expect(try await home.isThere(invited) == false)
    }

    /// A thief redeems invitations of a stolen device, and connects with the tokens after the device was revoked.
    @Test func invitationOfARevokedDeviceIsRejected() async throws {
        let home = try await Home()
        var early = TestDevice(subject: "me")
        var late = TestDevice(subject: "me")
        (early.inviter, late.inviter) = (home.pc.id, home.pc.id)
        _ = try await home.world.open(early)
        #expect(try await home.revoke(home.pc, by: home.phone, on: home.phoneHost) == nil)
        guard case .failure(let rejected) = try await home.world.connect(late.hello(home.account)) else {
            Issue.record("it was accepted")
            return
        }
        #expect(rejected.code == .endpointRevoked)
        // A person decides about endpoints that joined before, and sees the inviter.
        _ = try await home.world.open(early)
    }

    /// 998 endpoints of one stolen token, each of which leaves at once: nothing of them stays, and the account takes others.
    @Test func endpointsThatRevokeThemselvesLeaveNothing() async throws {
        let home = try await Home()
        for _ in 0..<998 {
            let device = TestDevice(subject: "me")
            let host = try await home.world.connect(device.hello(home.account)).get()
            let answer = try await host.send(device.revocation(of: device.id, account: home.account))
            #expect(answer.first?.isOK == true)
        }
        let account = AccountID(home.account)
        let left = try await home.world.store.base.transact { store in
            (try store.endpoints(of: account).count, try store.revocationCount(of: account))
        }
        #expect(left == (3, 0))
    }

    /// The number of permanently stored revocations is bounded.
    @Test func totalEndpointsPerAccountAreLimited() async throws {
        var limits = Limits()
        limits[.endpointsEverPerAccount] = 5
        let home = try await Home(limits: limits)
        for _ in 0..<2 {
            let device = TestDevice(subject: "me")
            _ = try await home.world.open(device)
            #expect(try await home.revoke(device, by: home.phone, on: home.phoneHost) == nil)
        }
        let late = TestDevice(subject: "me")
        let rejection = try await home.world.connect(late.hello(home.account)).rejection
        #expect(rejection?.code == .limitExceeded)
        #expect(rejection?.limit?.error == LimitExceeded(limit: .endpointsEverPerAccount, allowed: 5, requested: 6))
        // Existing endpoints can reconnect.
        #expect(try await home.world.connect(home.newcomer.hello(home.account)).rejection == nil)
    }
}

extension Signed {
    /// With other fields, signed anew.
    fileprivate func encoded(replacing fields: [String: ValueSet.Value], signedBy key: P256SigningKey) throws -> [UInt8] {
        var body = try ValueSetEncoder().encode(payload)
        for (name, value) in fields { body[name] = value }
        let bytes = try body.encodedBytes()
        let signature = try key.sign(bytes, for: Payload.purpose)
        return try (["body": .data(bytes), "signature": .data(signature)] as ValueSet).encodedBytes()
    }
}
