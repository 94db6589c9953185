// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct AddressHintsTests {
    private let pair: CandidatePair
    private var peer: EndpointID { pair.peer.id }

    init() throws { pair = try CandidatePair() }

    private func links(_ addresses: String...) -> [LinkInterface] {
        addresses.enumerated().compactMap { index, text in
            IPAddress(parsing: text.utf8).map {
                LinkInterface(index: index + 2, name: "eth\(index)", addresses: [.init($0, prefixLength: 24)])
            }
        }
    }

    private func place(_ text: String, _ port: UInt16 = 4_711) throws -> AddressHints.Place {
        .init(address: try #require(IPAddress(parsing: text.utf8)), port: port)
    }

    private func dialled(_ hints: AddressHints, at now: Int64 = 0, on links: [LinkInterface]) -> [String] {
        var nearby = NearbyPeers()
        nearby.recognise([peer: pair.ownKeys])
        nearby.hints = hints
        return nearby.candidates(for: peer, hour: 0, at: now, on: links) { NearbyReach.local.admits($0, on: links) }
            .map { "\($0.address):\($0.port)" }
    }

    /// Nothing of this machine is dialled, also not at an interface that is not used.
    @Test func ownAddressesAreLeftOut() throws {
        var hints = AddressHints()
        hints.told(try #require(CandidatePair.candidates(4_711, "10.0.0.1", "172.17.0.1", "10.0.0.9")), by: peer, at: 0)
        let bridge = try place("172.17.0.1").address
        let places = hints.places(of: peer, at: 0, on: links("10.0.0.1")) { [bridge] }
        #expect(places == [try place("10.0.0.9")])
    }

    @Test func whatAPeerSaysCountsForAWhile() throws {
        var hints = AddressHints()
        hints.told(try #require(CandidatePair.candidates(4_711, "10.0.0.9", "192.168.1.9")), by: peer, at: 0)
        let links = links("10.0.0.1")
        #expect(dialled(hints, on: links) == ["10.0.0.9:4711", "192.168.1.9:4711"])
        #expect(dialled(hints, at: AddressHints.freshness - 1, on: links).count == 2)
        #expect(dialled(hints, at: AddressHints.freshness, on: links).isEmpty)
        // Newer ones replace it.
        hints.told(try #require(CandidatePair.candidates(4_712, "10.0.0.9")), by: peer, at: 1)
        #expect(dialled(hints, on: links) == ["10.0.0.9:4712"])
        hints.forgetTold()
        #expect(dialled(hints, on: links).isEmpty)
    }

    /// The address that worked last is dialled from its network only, and longer than what was said.
    @Test func lastPlaceCountsInItsNetwork() throws {
        var hints = AddressHints()
        hints.worked(try place("192.168.1.9"), for: peer, at: 100 - AddressHints.memory)
        #expect(dialled(hints, on: links("10.0.0.1")).isEmpty)
        #expect(dialled(hints, on: links("10.0.0.1", "192.168.1.1")) == ["192.168.1.9:4711"])
        #expect(dialled(hints, on: links("192.168.1.9")).isEmpty, "an address that is this machine's now")
        #expect(dialled(hints, at: 100, on: links("192.168.1.1")).isEmpty)
        hints.forgetTold()
        #expect(dialled(hints, on: links("192.168.1.1")).count == 1)
        // The same place is dialled once.
        hints.told(try #require(CandidatePair.candidates(4_711, "192.168.1.9", "192.168.1.8")), by: peer, at: 0)
        #expect(dialled(hints, on: links("192.168.1.1")) == ["192.168.1.9:4711", "192.168.1.8:4711"])
    }

    @Test func onlyWhatIsNewIsStored() throws {
        var hints = AddressHints()
        let (one, two) = (try place("10.0.0.9"), try place("10.0.0.8"))
        let areNew = [(one, 0, 10), (one, 1, 0), (one, 86_399_989, 0), (one, 86_399_990, 0), (two, 86_399_990, 0), (one, 86_399_990, 0)]
            .map { hints.worked($0.0, for: peer, at: $0.1, ago: $0.2) }
        #expect(areNew == [true, false, false, true, true, true])
    }

    @Test func hintsGoWithTheKeys() throws {
        var nearby = NearbyPeers()
        nearby.recognise([peer: pair.ownKeys])
        nearby.hints.told(try #require(CandidatePair.candidates(4_711, "10.0.0.9")), by: peer, at: 0)
        nearby.hints.worked(try place("10.0.0.9"), for: peer, at: 100 - AddressHints.memory)
        nearby.recognise([:])
        nearby.recognise([peer: pair.ownKeys])
        #expect(nearby.candidates(for: peer, hour: 0, at: 0, on: links("10.0.0.1")) { _ in true }.isEmpty)
    }

    /// A way that failed rests, whoever has named it.
    @Test func failedPlaceRests() throws {
        var nearby = NearbyPeers()
        nearby.recognise([peer: pair.ownKeys])
        nearby.hints.told(try #require(CandidatePair.candidates(4_711, "10.0.0.8", "10.0.0.9")), by: peer, at: 0)
        func candidates(_ now: Int64) -> [NearbyPeers.Candidate] {
            nearby.candidates(for: peer, hour: 0, at: now, on: links("10.0.0.1")) { _ in true }
        }
        nearby.failed(try #require(candidates(0).first), peer, at: 0, pause: 60_000)
        #expect(candidates(0).map(\.address.description) == ["10.0.0.9"])
        nearby.hints.told(try #require(CandidatePair.candidates(4_711, "10.0.0.8")), by: peer, at: 1)
        #expect(candidates(59_999).isEmpty && candidates(60_000).count == 1)
        // Another network: nothing of it counts.
        nearby.networkChanged()
        #expect(candidates(1).isEmpty)
    }
}
