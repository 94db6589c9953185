// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct SecretPairingTests {
    private static func link(_ world: inout PairingWorld, id: EndpointID? = nil) throws -> PairingLink {
        let place = try #require(IPAddress(bytes: [10, 0, 0, 1]).flatMap { PairingLink.Place($0, port: 4_711) })
        return try PairingLink(id: id ?? world.screen, secret: Secret(world.random.bytes(16)), places: [place])
    }

    @Test(arguments: 0..<20 as Range<UInt64>) func scannedLinkPairs(seed: UInt64) throws {
        var world = PairingWorld(seed: seed)
        let shown = try Self.link(&world)
        // As it comes out of a camera.
        let caller = try SecretPairing.Caller(link: PairingLink(parsing: shown.text), own: world.phone, peer: world.screen)
        let shower = try SecretPairing.Shower(secret: shown.secret, own: world.screen, caller: world.phone)
        let proof = try #require(shower.receive(caller.opening))
        try caller.finish(PairingAnswer(.accepted, proof))
    }

    @Test func onlyTheDeviceOfTheLinkIsCalled() throws {
        var world = PairingWorld(seed: 1)
        let (link, own) = (try Self.link(&world), try Self.link(&world, id: world.phone))
        #expect(throws: PairingError.otherDevice) { try SecretPairing.Caller(link: link, own: world.phone, peer: world.stranger) }
        #expect(throws: PairingError.ownDevice) { try SecretPairing.Caller(link: own, own: world.phone, peer: world.phone) }
        #expect(throws: PairingError.ownDevice) {
            try SecretPairing.Shower(secret: link.secret, own: world.screen, caller: world.screen)
        }
    }

    /// Neither another secret, nor the proof of another caller, nor the own proof sent back.
    @Test func everythingElseIsRefused() throws {
        var world = PairingWorld(seed: 1)
        let (link, other) = (try Self.link(&world), try Self.link(&world))
        let shower = try SecretPairing.Shower(secret: link.secret, own: world.screen, caller: world.phone)
        let caller = try SecretPairing.Caller(link: link, own: world.phone, peer: world.screen)
        let elsewhere = try SecretPairing.Caller(link: other, own: world.phone, peer: world.screen)
        let stranger = try SecretPairing.Caller(link: link, own: world.stranger, peer: world.screen)
        let proof = try #require(shower.receive(caller.opening))
        let value = caller.opening.value
        let requests = [
            elsewhere.opening, stranger.opening, PairingRequest(.prove, proof), PairingRequest(.prove, []),
            PairingRequest(.prove, value.dropLast()), PairingRequest(.prove, value + [0]), PairingRequest(.prove, round: 1, value),
            PairingRequest(.commit, value), PairingRequest(.reveal, value), PairingRequest(.prove, link.secret.exposed),
        ]
        for request in requests { #expect(shower.receive(request) == nil) }
        for bit in 0..<256 {
            var (asked, answered) = (value, proof)
            asked[bit / 8] ^= 1 << UInt8(bit % 8)
            answered[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(shower.receive(PairingRequest(.prove, asked)) == nil)
            #expect(throws: PairingError.wrong) { try caller.finish(PairingAnswer(.accepted, answered)) }
        }
        let answers: [(PairingAnswer, PairingError)] = [
            (PairingAnswer(.accepted, value), .wrong), (PairingAnswer(.accepted, elsewhere.opening.value), .wrong),
            (PairingAnswer(.accepted), .invalidMessage), (PairingAnswer(.accepted, proof.dropLast()), .invalidMessage),
            (PairingAnswer(.accepted, proof + [0]), .invalidMessage), (PairingAnswer(.wrong, proof), .wrong),
            (PairingAnswer(.busy, proof), .busy), (PairingAnswer(.notPairing, proof), .notPairing),
        ]
        for (answer, error) in answers { #expect(throws: error) { try caller.finish(answer) } }
    }
}
