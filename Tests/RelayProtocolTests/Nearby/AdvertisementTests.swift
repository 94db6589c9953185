// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct AdvertisementTests {
    /// An endpoint with its link key.
    private struct Device {
        let id = EndpointID(P256SigningKey().publicKey)
        let key = P256LinkKey()

        func keys(with other: Device) throws -> PairKeys {
            try PairKeys(key, of: id, with: AgreementPublicKey(bytes: other.key.publicKey.bytes), of: other.id)
        }
    }

    private let own = Device()
    private let hour: UInt32 = 496_000

    private func advertisement(for peers: [Device], visible: Advertisement.Visible? = nil) throws -> Advertisement {
        var random = SystemRandomNumberGenerator()
        return Advertisement(of: own.id, hour: hour, for: try peers.map { try own.keys(with: $0) }, visible: visible, using: &random)
    }

    @Test func onlyAPeerRecognisesItsAdvertiser() throws {
        let (peer, other, stranger) = (Device(), Device(), Device())
        let read = try #require(Advertisement(strings: try advertisement(for: [peer, other]).strings))
        #expect(read.isFrom(own.id, try peer.keys(with: own)))
        #expect(read.isFrom(own.id, try other.keys(with: own)))
        #expect(!read.isFrom(own.id, try stranger.keys(with: own)))
        // Nor does a peer take it for that of another one.
        #expect(!read.isFrom(other.id, try peer.keys(with: other)))
        #expect(read.hour == hour)
    }

    @Test func numberOfTagsTellsLittle() throws {
        #expect(try advertisement(for: []).tags.count == 8)
        let eight = try (0..<8).map { _ in try own.keys(with: Device()) }
        var random = SystemRandomNumberGenerator()
        func tags(_ count: Int) -> Int {
            let keys = (0..<count).map { eight[$0 % 8] }
            return Advertisement(of: own.id, hour: hour, for: keys, using: &random).tags.count
        }
        #expect([tags(1), tags(8), tags(9), tags(128), tags(200)] == [8, 8, 16, 128, 128])
    }

    @Test func newNonceMakesNewTags() throws {
        let peer = Device()
        let (one, two) = (try advertisement(for: [peer]), try advertisement(for: [peer]))
        #expect(one.nonce != two.nonce)
        #expect(Set(one.tags).isDisjoint(with: two.tags))
    }

    @Test func oldAdvertisementIsNotRecent() throws {
        let made = try advertisement(for: [])
        let recent = (-4...4).filter { made.isRecent(at: UInt32(Int64(hour) + Int64($0))) }
        #expect(recent == [-1, 0, 1, 2])
        #expect(!made.isRecent(at: 0) && !made.isRecent(at: .max))
    }

    @Test func stringsAreReadBack() throws {
        let visible = Advertisement.Visible(name: "Küche", kind: "desktop", mode: .receive)
        for count in [0, 1, 61, 128] {
            let keys = try own.keys(with: Device())
            var random = SystemRandomNumberGenerator()
            let made = Advertisement(
                of: own.id,
                hour: hour,
                for: [PairKeys](repeating: keys, count: count),
                visible: count == 1 ? visible : nil,
                using: &random
            )
            #expect(Advertisement(strings: made.strings) == made)
            #expect(made.strings.allSatisfy { $0.count <= 255 })
            // All of it fits into one packet of a network.
            #expect(made.strings.reduce(0) { $0 + 1 + $1.count } < 1_200)
        }
        let long = Advertisement.Visible(name: String(repeating: "ü", count: 300), kind: "desktop", mode: .pair)
        let read = Advertisement(strings: try advertisement(for: [], visible: long).strings)
        #expect(read?.visible?.name == String(repeating: "ü", count: 60))
    }

    @Test(arguments: [
        [], ["v=2"], ["v=1"], ["n=aaaaaaaaaaaa"], ["v=1", "n=aaaaaaaaaaa"], ["v=1", "n=aaaaaaaaaaaa", "t0=abc"],
        ["v=1", "n=aaaaaaaaaaaa", "t0=bbbbaaaa"], ["v", "n=aaaaaaaaaaaa"], ["v=2", "v=1", "n=aaaaaaaaaaaa"],
    ])
    func otherStringsAreNoAdvertisement(_ strings: [String]) { #expect(Advertisement(strings: strings.map { Array($0.utf8) }) == nil) }

    @Test(arguments: ["d=\u{1B}[31mred", "d=", "d=\u{202E}evil", "d= ", "m=other"])
    func hostileTextIsNotShown(_ text: String) throws {
        let own = ["v=1", "n=aaaaaaaaaaaa", text, "d=Name", "k=desktop", "m=pair"].map { Array($0.utf8) }
        #expect(try #require(Advertisement(strings: own)).visible == nil)
    }

    @Test func unknownFieldsAreIgnored() throws {
        let strings = ["V=1", "n=aaaaaaaaaaaa", "x", "=y", "t0=aaaabbbb", "future=1"].map { Array($0.utf8) }
        #expect(try #require(Advertisement(strings: strings)).tags.count == 2)
    }

    @Test func proofIsOfOneKnock() throws {
        let (peer, stranger) = (Device(), Device())
        var knock = Knock(challenge: Array(0..<16), kind: .known, nonce: Array(0..<8), dialer: peer.id, listener: own.id)
        let proof = try peer.keys(with: own).proof(of: knock)
        let keys = try own.keys(with: peer)
        #expect(proof.count == Knock.proofBytes)
        #expect(keys.isValid(proof, for: knock))
        #expect(!(try own.keys(with: stranger)).isValid(proof, for: knock))
        #expect(!keys.isValid(Array(proof.dropLast()), for: knock) && !keys.isValid([], for: knock))
        // Another challenge, and the other's own proof sent back.
        knock.challenge[0] ^= 1
        #expect(!keys.isValid(proof, for: knock))
        knock.challenge[0] ^= 1
        (knock.dialer, knock.listener) = (knock.listener, knock.dialer)
        #expect(!keys.isValid(proof, for: knock))
    }

    @Test func bothSidesShareTheirKeys() throws {
        let peer = Device()
        let (here, there) = (try own.keys(with: peer), try peer.keys(with: own))
        #expect(here.candidates == there.candidates)
        #expect(here.tag(of: own.id, nonce: [1]) == there.tag(of: own.id, nonce: [1]))
        #expect(here.tag(of: own.id, nonce: [1]) != here.tag(of: peer.id, nonce: [1]))
    }

    @Test func invalidPointIsRefused() {
        #expect(throws: KeyError.malformedPublicKey) { try AgreementPublicKey(bytes: [4] + [UInt8](repeating: 1, count: 64)) }
        #expect(throws: KeyError.malformedPublicKey) { try AgreementPublicKey(bytes: []) }
    }
}
