// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayIssuer

@Suite struct RefreshFamilyTests {
    static let start: Milliseconds = 1_700_000_000_000
    let first = Digest256(hashing: [1])
    let second = Digest256(hashing: [2])
    let third = Digest256(hashing: [3])

    func after(_ milliseconds: Int64) -> Milliseconds { Milliseconds(clamping: Self.start.count + milliseconds) }

    func family(key: String? = "key") -> RefreshFamily {
        RefreshFamily(
            id: .random(),
            subject: "user",
            client: "com.example.app",
            scopes: .all,
            key: key,
            created: Self.start,
            rotated: Self.start,
            current: first
        )
    }

    func present(
        _ family: RefreshFamily,
        _ token: Digest256,
        client: String = "com.example.app",
        key: String? = "key",
        at time: Int64
    ) -> RefreshFamily.Decision {
        family.present(token, client: client, key: key, now: after(time))
    }

    @Test func theCurrentTokenIsReplaced() {
        #expect(present(family(), first, at: 1) == .rotate)
    }

    @Test func thePreviousOneGetsTheSameAnswerUntilTheCurrentOneIsUsed() {
        var family = family()
        family.rotate(to: second, now: after(1_000))
        #expect(present(family, second, at: 1_000) == .rotate)
        #expect(present(family, first, at: 1_000) == .repeatSuccessor)
        #expect(present(family, first, at: RefreshFamily.idleLife - 1) == .repeatSuccessor)
        family.rotate(to: third, now: after(2_000))
        #expect(present(family, first, at: 2_000) == .revoke)
    }

    @Test func withoutAKeyItDoesSoForAMinute() {
        var family = family()
        family.key = nil
        family.rotate(to: second, now: after(1_000))
        #expect(present(family, first, key: nil, at: 61_000) == .repeatSuccessor)
        #expect(present(family, first, key: nil, at: 61_001) == .revoke)
    }

    @Test func anOlderOneRevokesAtOnce() {
        var family = family()
        family.rotate(to: second, now: after(1_000))
        family.rotate(to: third, now: after(2_000))
        #expect(present(family, first, at: 2_000) == .revoke)
        #expect(present(family, second, at: 2_000) == .repeatSuccessor)
    }

    @Test func aTokenThatNeverWasRevokes() {
        #expect(present(family(), third, at: 1) == .revoke)
    }

    @Test func nothingWorksOnceRevoked() {
        var family = family()
        family.rotate(to: second, now: after(1_000))
        family.revoked = after(1_000)
        for token in [first, second, third] { #expect(present(family, token, at: 1_000) == .refuse(.revoked)) }
    }

    @Test func anotherKeyOrClientIsRefusedAndRevokesNothing() {
        for token in [first, third] {
            #expect(present(family(), token, key: "other", at: 1) == .refuse(.otherKey))
            #expect(present(family(), token, key: nil, at: 1) == .refuse(.otherKey))
            #expect(present(family(), token, client: "com.example.other", at: 1) == .refuse(.otherClient))
        }
    }

    @Test func anUnboundLoginAsksForNoKey() {
        #expect(present(family(key: nil), first, key: nil, at: 1) == .rotate)
        #expect(present(family(key: nil), first, key: "any", at: 1) == .rotate)
    }

    @Test func aLoginEndsWhenIdleAndWhenOld() {
        #expect(present(family(), first, at: RefreshFamily.idleLife - 1) == .rotate)
        #expect(present(family(), first, at: RefreshFamily.idleLife) == .refuse(.expired))
        var family = family()
        var time: Int64 = 0
        while time + RefreshFamily.idleLife < RefreshFamily.wholeLife {
            time += RefreshFamily.idleLife - 1
            #expect(present(family, first, at: time) == .rotate)
            family.rotated = after(time)
        }
        #expect(present(family, first, at: RefreshFamily.wholeLife - 1) == .rotate)
        #expect(present(family, first, at: RefreshFamily.wholeLife) == .refuse(.expired))
    }

    @Test func aClockThatWasSetBackRevokesNothing() {
        var family = family()
        family.rotate(to: second, now: after(3_600_000))
        #expect(present(family, first, at: 0) == .repeatSuccessor)
        #expect(present(family, second, at: 0) == .rotate)
    }
}

@Suite struct InvitationTests {
    let code = Digest256(hashing: [1])

    @Test func aCodeWorksForTenMinutes() {
        let invitation = Invitation(code: code, subject: "user", expires: 600_000)
        #expect(invitation.present(key: nil, now: 0) == .accept)
        #expect(invitation.present(key: nil, now: 599_999) == .accept)
        #expect(invitation.present(key: nil, now: 600_000) == .expired)
    }

    @Test func aSecondUserOfTheCodeEndsTheLogin() {
        let family = FamilyID.random()
        var invitation = Invitation(code: code, subject: "user", expires: 600_000)
        invitation.redemption = .init(key: "key", family: family)
        #expect(invitation.present(key: "other", now: 1) == .replayed(revoke: family))
        #expect(invitation.present(key: nil, now: 1) == .replayed(revoke: family))
        #expect(invitation.present(key: "key", now: 1) == .replayed(revoke: nil))
        invitation.redemption = .init(key: nil, family: family)
        #expect(invitation.present(key: nil, now: 1) == .replayed(revoke: family))
    }
}

@Suite struct RefreshTokenTests {
    @Test func theTextComesBack() throws {
        let token = RefreshToken(family: .random())
        let read = try #require(RefreshToken(parsing: token.text.exposed))
        #expect(read.digest == token.digest)
        #expect(read.family == token.family)
    }

    @Test func theSuccessorIsAlwaysTheSameAndNeedsTheKey() {
        let master = MasterKey(Array(repeating: 1, count: 32))
        let token = RefreshToken(family: .random())
        let successor = token.successor(by: master.successorKey)
        #expect(token.successor(by: master.successorKey).digest == successor.digest)
        #expect(successor.family == token.family)
        #expect(successor.digest != token.digest)
        #expect(token.successor(by: MasterKey(Array(repeating: 2, count: 32)).successorKey).digest != successor.digest)
    }

    @Test func nothingPrintsAToken() {
        let token = RefreshToken(family: .random())
        var dumped = ""
        dump(token, to: &dumped)
        for text in [dumped, "\(token)", String(reflecting: token)] { #expect(text.count < 400 && text.contains("(secret)")) }
    }
}
