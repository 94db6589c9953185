// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayIssuer

@Suite struct SigningKeyRingTests {
    static let day: Int64 = 86_400_000

    func time(_ days: Int64) -> Milliseconds { Milliseconds(clamping: days * Self.day) }

    @Test func firstKeySignsAtOnce() {
        #expect(SigningKeyRing([]).changes(at: 5) == [.create(activates: 5)])
        #expect(SigningKeyRing([]).nextChange == 0)
    }

    @Test func nextKeyIsPublishedAWeekAhead() {
        let ring = SigningKeyRing([.init(id: "a", activates: 0)])
        #expect(ring.nextChange == time(83))
        #expect(ring.changes(at: Milliseconds(clamping: time(83).count - 1)) == [])
        #expect(ring.changes(at: time(83)) == [.create(activates: time(90))])
    }

    @Test func oldKeySignsUntilTheNewOneHasBeenPublishedForADay() {
        let ring = SigningKeyRing([.init(id: "a", activates: 0)])
        #expect(ring.changes(at: time(400)) == [.create(activates: time(401))])
        let both = SigningKeyRing([.init(id: "a", activates: 0), .init(id: "b", activates: time(401))])
        #expect(both.signer(at: time(400))?.id == "a")
        #expect(both.signer(at: time(401))?.id == "b")
    }

    @Test func oldKeyStaysUntilItsTokensHaveExpired() {
        let ring = SigningKeyRing([.init(id: "a", activates: 0), .init(id: "b", activates: time(90))])
        let end = time(90).count + SigningKeyRing.trail
        #expect(SigningKeyRing.trail > AccessTokenClaims.life + 60_000)
        #expect(ring.nextChange.count == end)
        #expect(ring.changes(at: Milliseconds(clamping: end - 1)) == [])
        #expect(ring.changes(at: Milliseconds(clamping: end)) == [.remove(id: "a")])
    }

    @Test func clockSetBackLeavesASigner() {
        #expect(SigningKeyRing([.init(id: "a", activates: 100), .init(id: "b", activates: 200)]).signer(at: 50)?.id == "a")
    }

    @Test func removedKeyLeavesASigner() {
        let ring = SigningKeyRing([.init(id: "a", activates: 0), .init(id: "b", activates: time(90)), .init(id: "c", activates: time(180))])
        #expect(ring.changes(removing: "b", at: time(100)) == [.create(activates: time(100)), .remove(id: "b")])
        #expect(ring.changes(removing: "a", at: time(100)) == [.remove(id: "a")])
        #expect(ring.changes(removing: "c", at: time(100)) == [.remove(id: "c")])
        #expect(ring.changes(removing: "d", at: time(100)).isEmpty && ring.changes(removing: "", at: time(100)).isEmpty)
        // Without the next key, another one is due.
        let left = SigningKeyRing(ring.entries.filter { $0.id != "c" })
        #expect(left.changes(at: time(174)).contains(.create(activates: time(180))))
    }

    /// Ten years of calls at random times.
    @Test(arguments: 0..<50) func keysArePublishedBeforeFirstUseAndUntilTheirTokensExpire(seed: UInt64) {
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        func random(_ bound: Int64) -> Int64 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return Int64(state % UInt64(bound))
        }
        var entries: [SigningKeyRing.Entry] = []
        var published: [String: Int64] = [:]
        var lastSigned: [String: Int64] = [:]
        var now: Int64 = 0
        var made = 0
        while now < 3_650 * Self.day {
            let ring = SigningKeyRing(entries)
            let changes = ring.changes(at: Milliseconds(clamping: now))
            #expect(changes.isEmpty == (now < ring.nextChange.count), "seed \(seed)")
            for change in changes {
                switch change {
                case .create(let activates):
                    made += 1
                    entries.append(.init(id: "\(made)", activates: activates))
                    published["\(made)"] = now
                case .remove(let id):
                    entries.removeAll { $0.id == id }
                    #expect(now > (lastSigned[id] ?? 0) + AccessTokenClaims.life + 60_000, "seed \(seed)")
                }
            }
            #expect((1...3).contains(entries.count), "seed \(seed)")
            guard let signer = SigningKeyRing(entries).signer(at: Milliseconds(clamping: now)) else {
                Issue.record("no key signs, seed \(seed)")
                return
            }
            if lastSigned[signer.id] == nil, signer.id != "1" {
                #expect(now - (published[signer.id] ?? now) >= SigningKeyRing.minimumLead, "seed \(seed)")
            }
            lastSigned[signer.id] = now
            now += random(seed % 3 == 0 ? 200 * Self.day : 3 * Self.day)
        }
        #expect(made > 10, "seed \(seed)")
    }
}
