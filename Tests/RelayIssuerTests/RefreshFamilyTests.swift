// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayIssuer

@Suite struct RefreshFamilyTests {
    static let start: Milliseconds = 1_700_000_000_000

    func after(_ milliseconds: Int64) -> Milliseconds { Milliseconds(clamping: Self.start.count + milliseconds) }

    /// - Parameter current: The number of the newest token, which was issued at `start`.
    func family(current: Int64 = 1, key: String? = "key") -> RefreshFamily {
        RefreshFamily(
            id: .random(),
            subject: "user",
            client: "com.example.app",
            scopes: .all,
            key: key,
            invitedBy: nil,
            created: Self.start,
            rotated: Self.start,
            current: current
        )
    }

    func decision(
        _ family: RefreshFamily,
        _ number: Int64,
        client: String = "com.example.app",
        key: String? = "key",
        at time: Int64
    ) -> RefreshFamily.Decision {
        family.decision(number, client: client, key: key, now: after(time))
    }

    @Test func theCurrentTokenIsReplaced() {
        #expect(decision(family(), 1, at: 1) == .rotate)
    }

    @Test func previousTokenGetsTheSameAnswerUntilTheCurrentOneIsUsed() {
        var family = family()
        family.rotate(from: 1, now: after(1_000))
        #expect(family.current == 2)
        #expect(decision(family, 2, at: 1_000) == .rotate)
        #expect(decision(family, 1, at: 1_000) == .reissueSuccessor)
        #expect(decision(family, 1, at: RefreshFamily.idleLife - 1) == .reissueSuccessor)
        family.rotate(from: 2, now: after(2_000))
        #expect(decision(family, 1, at: 2_000) == .revoke)
    }

    @Test func unboundPreviousTokenIsAcceptedForOneMinute() {
        var family = family(key: nil)
        family.rotate(from: 1, now: after(1_000))
        #expect(decision(family, 1, key: nil, at: 61_000) == .reissueSuccessor)
        #expect(decision(family, 1, key: nil, at: 61_001) == .revoke)
    }

    @Test func olderTokenRevokesAtOnce() {
        #expect(decision(family(current: 3), 1, at: 0) == .revoke)
        #expect(decision(family(current: 3), 2, at: 0) == .reissueSuccessor)
    }

    @Test(arguments: ["key", nil]) func newerTokenThanTheStoreKnowsIsAcceptedAfterARestore(key: String?) {
        var family = family(current: 3, key: key)
        #expect(decision(family, 9, key: key, at: 1) == .rotateAfterRestore)
        family.rotate(from: 9, now: after(1))
        #expect(decision(family, 10, key: key, at: 2) == .rotate)
        #expect(decision(family, 9, key: key, at: 2) == .reissueSuccessor)
        #expect(decision(family, 8, key: key, at: 2) == .revoke)
    }

    @Test func noTokenWorksAfterRevocation() {
        var family = family(current: 2)
        family.revoked = after(1_000)
        for number in [1, 2, 3, 9] as [Int64] {
            #expect(decision(family, number, at: 1_000) == .refuse(.revoked))
            #expect(!family.mayBeRevoked(with: number))
        }
    }

    @Test func otherKeyOrClientIsRejectedAndRevokesNothing() {
        let family = family(current: 3)
        for number in [1, 2, 3, 9] as [Int64] {
            #expect(decision(family, number, key: "other", at: 1) == .refuse(.otherKey))
            #expect(decision(family, number, key: nil, at: 1) == .refuse(.otherKey))
            #expect(decision(family, number, client: "com.example.other", at: 1) == .refuse(.otherClient))
        }
    }

    @Test func unboundLoginNeedsNoKey() {
        #expect(decision(family(key: nil), 1, key: nil, at: 1) == .rotate)
        #expect(decision(family(key: nil), 1, key: "any", at: 1) == .rotate)
    }

    @Test func loginExpiresWhenIdleAndWhenOld() {
        #expect(decision(family(), 1, at: RefreshFamily.idleLife - 1) == .rotate)
        #expect(decision(family(), 1, at: RefreshFamily.idleLife) == .refuse(.expired))
        #expect(decision(family(), 9, at: RefreshFamily.idleLife) == .refuse(.expired))
        var family = family()
        var time: Int64 = 0
        while time + RefreshFamily.idleLife < RefreshFamily.wholeLife {
            time += RefreshFamily.idleLife - 1
            #expect(decision(family, 1, at: time) == .rotate)
            family.rotated = after(time)
        }
        #expect(decision(family, 1, at: RefreshFamily.wholeLife - 1) == .rotate)
        #expect(decision(family, 1, at: RefreshFamily.wholeLife) == .refuse(.expired))
    }

    @Test func clockSetBackRevokesNothing() {
        var family = family()
        family.rotate(from: 1, now: after(3_600_000))
        #expect(decision(family, 1, at: 0) == .reissueSuccessor)
        #expect(decision(family, 2, at: 0) == .rotate)
    }

    @Test func onlyTheNewestTokensMayEndTheLogin() {
        let family = family(current: 3)
        #expect([1, 2, 3, 9].map { family.mayBeRevoked(with: $0) } == [false, true, true, true])
    }
}

/// Random orders of refreshes, lost responses and restored stores.
@Suite struct RefreshFamilyPropertyTests {
    private var random = SplitMix()

    /// A seeded generator, so that a failure is reproducible.
    private struct SplitMix: RandomNumberGenerator {
        var state: UInt64 = 20_261_124

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var word = state
            word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
            return word ^ (word >> 31)
        }
    }

    private func family(key: String?) -> RefreshFamily {
        RefreshFamily(
            id: .random(),
            subject: "user",
            client: "com.example.app",
            scopes: .all,
            key: key,
            invitedBy: nil,
            created: RefreshFamilyTests.start,
            rotated: RefreshFamilyTests.start
        )
    }

    /// Applies the decision as the issuer does.
    /// - Returns: The number of the token in the response.
    private func use(_ number: Int64, of family: inout RefreshFamily, at now: Milliseconds) -> Int64? {
        switch family.decision(number, client: family.client, key: family.key, now: now) {
        case .rotate, .rotateAfterRestore:
            family.rotate(from: number, now: now)
            return family.current
        case .reissueSuccessor: return family.current
        case .revoke:
            family.revoked = now
            return nil
        case .refuse: return nil
        }
    }

    /// A device holds the token of the last response that arrived. Neither lost responses nor a restored disk end its login.
    @Test mutating func boundLoginSurvivesLostResponsesAndRestores() {
        for _ in 0..<300 {
            var family = family(key: "key")
            var backups = [family]
            var held: Int64 = 1
            var now = RefreshFamilyTests.start.count
            for _ in 0..<60 {
                now += Int64.random(in: 0...86_400_000, using: &random)
                switch Int.random(in: 0..<10, using: &random) {
                case 0: backups.append(family)
                case 1: family = backups.randomElement(using: &random) ?? family
                default:
                    let answer = use(held, of: &family, at: Milliseconds(clamping: now))
                    #expect(answer == held + 1)
                    let isLost = Int.random(in: 0..<3, using: &random) == 0
                    if let answer, !isLost { held = answer }
                }
                #expect(family.revoked == nil)
            }
        }
    }

    /// A thief copied a token, and both continue with their tokens. The first use of a replaced token ends the login.
    @Test(arguments: ["key", nil]) mutating func sharedLoginIsRevoked(key: String?) {
        for _ in 0..<300 {
            var family = family(key: key)
            var held: [Int64] = [1, 1]
            var now = RefreshFamilyTests.start.count
            let backup = Int.random(in: 0..<40, using: &random)
            let restore = backup + Int.random(in: 0..<20, using: &random)
            var copy = family
            var uses = 0
            for step in 0..<400 where family.revoked == nil {
                now += Int64.random(in: 60_001...3_600_000, using: &random)
                if step == backup { copy = family }
                if step == restore { family = copy }
                let user = Int.random(in: 0...1, using: &random)
                let newest = family.current
                let answer = use(held[user], of: &family, at: Milliseconds(clamping: now))
                if held[user] < newest - 1 {
                    #expect(answer == nil && family.revoked != nil)
                }
                if let answer { held[user] = answer }
                uses += 1
            }
            #expect(family.revoked != nil, "\(uses) uses")
            // A revoked login rejects every token.
            for number in 1...(held.max() ?? 1) + 2 { #expect(use(number, of: &family, at: Milliseconds(clamping: now)) == nil) }
        }
    }
}

@Suite struct InvitationTests {
    let code = Digest256(hashing: [1])

    func invitation(_ redemption: Invitation.Redemption? = nil) -> Invitation {
        Invitation(code: code, subject: "user", inviter: nil, expires: 600_000, redemption: redemption)
    }

    @Test func aCodeWorksForTenMinutes() {
        #expect(invitation().decision(key: nil, now: 0) == .accept)
        #expect(invitation().decision(key: nil, now: 599_999) == .accept)
        #expect(invitation().decision(key: nil, now: 600_000) == .expired)
    }

    @Test func useByASecondKeyRevokesTheLoginUntilTheLinkExpires() {
        let family = FamilyID.random()
        for key in ["key", nil] {
            let used = invitation(.init(key: key, family: family))
            #expect(used.decision(key: "other", now: 599_999) == .revoke(family))
            #expect(used.decision(key: "other", now: 600_000) == .usedAgain)
            #expect(used.decision(key: nil, now: 1) == .usedAgain)
        }
        #expect(invitation(.init(key: "key", family: family)).decision(key: "key", now: 599_999) == .repeated(family))
        #expect(invitation(.init(key: "key", family: family)).decision(key: "key", now: 600_000) == .expired)
        #expect(invitation(.init(key: "key", family: nil)).decision(key: "other", now: 1) == .usedAgain)
    }
}

@Suite struct RefreshTokenTests {
    let key = MasterKey(Array(repeating: 1, count: 32)).refreshTokenKey

    @Test(arguments: [1, 2, 255, 256, Int64.max - 1]) func textOfATokenIsParsedBack(number: Int64) throws {
        let token = RefreshToken(family: .random(), number: number, key: key)
        #expect(token.text.exposed.utf8.count == RefreshToken.characters)
        let read = try #require(RefreshToken(parsing: token.text.exposed))
        #expect(read.family == token.family)
        #expect(read.number == number)
        #expect(read.isAuthentic(by: key))
        #expect(read.text == token.text)
    }

    @Test func tokenOfAnotherKeyIsNotAuthentic() throws {
        let family = FamilyID.random()
        let other = MasterKey(Array(repeating: 2, count: 32)).refreshTokenKey
        #expect(!RefreshToken(family: family, number: 1, key: other).isAuthentic(by: key))
        #expect(RefreshToken(family: family, number: 1, key: key).text == RefreshToken(family: family, number: 1, key: key).text)
        #expect(RefreshToken(family: family, number: 1, key: key).text != RefreshToken(family: family, number: 2, key: key).text)
    }

    @Test func changedTokenIsNotAuthentic() throws {
        let bytes = try #require(Base64.url.decode(RefreshToken(family: .random(), number: 3, key: key).text.exposed))
        for index in bytes.indices {
            for bit in 0..<8 {
                var changed = bytes
                changed[index] ^= 1 << bit
                let read = RefreshToken(parsing: Base64.url.encode(changed))
                #expect(read?.isAuthentic(by: key) != true)
            }
        }
    }

    @Test func malformedTokenIsNotParsed() {
        for number in [0, UInt64(Int64.max), UInt64(Int64.max) + 1, UInt64.max] {
            let bytes = [UInt8](repeating: 1, count: 16) + (0..<8).reversed().map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
            #expect(RefreshToken(parsing: Base64.url.encode(bytes + [UInt8](repeating: 2, count: 32))) == nil)
        }
        for text in ["", "a", String(repeating: "A", count: 64), String(repeating: "ä", count: 75), String(repeating: "+", count: 75)] {
            #expect(RefreshToken(parsing: text) == nil)
        }
    }

    @Test func descriptionsDoNotContainTheToken() {
        let token = RefreshToken(family: .random(), number: 1, key: key)
        var dumped = ""
        dump(token, to: &dumped)
        let code = token.text.exposed.suffix(40)
        for text in [dumped, "\(token)", String(reflecting: token)] { #expect(!text.contains(code) && text.contains("(secret)")) }
    }
}
