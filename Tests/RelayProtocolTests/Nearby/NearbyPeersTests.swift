// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct NearbyPeersTests {
    private struct Device {
        let id = EndpointID(P256SigningKey().publicKey)
        let key = P256LinkKey()

        func keys(with other: Device) throws -> PairKeys { try PairKeys(key, of: id, with: other.key.publicKey, of: other.id) }
    }

    private let hour: UInt32 = 496_000
    private let own = Device()
    private let peer = Device()

    private func instance(
        _ label: String,
        of device: Device,
        for others: [Device],
        addresses: [String] = ["192.168.1.5"],
        hour: UInt32? = nil
    ) throws -> MulticastBrowser.Instance {
        var random = SystemRandomNumberGenerator()
        let keys = try others.map { try device.keys(with: $0) }
        return .init(
            name: .local([label, "_device-relay", "_tcp"]),
            port: 4_711,
            text: Advertisement(of: device.id, hour: hour ?? self.hour, for: keys, using: &random).strings,
            addresses: addresses.compactMap { IPAddress(parsing: $0.utf8) }
        )
    }

    private func nearby() throws -> NearbyPeers {
        var nearby = NearbyPeers()
        nearby.recognise([peer.id: try own.keys(with: peer)])
        return nearby
    }

    private func addresses(_ nearby: NearbyPeers, at now: Int64 = 0) -> [String] {
        nearby.candidates(for: peer.id, hour: hour, at: now) { _ in true }.map(\.address.description)
    }

    @Test func knownDeviceIsSeen() throws {
        var nearby = try nearby()
        nearby.see([try instance("a", of: peer, for: [own]), try instance("b", of: Device(), for: [Device()])], on: 2, at: 0)
        #expect(nearby.present(hour: hour) == [peer.id])
        #expect(addresses(nearby) == ["192.168.1.5"])
        #expect(nearby.recognised(on: 2) == [.local(["a", "_device-relay", "_tcp"])])
        // It goes with its interface's instances.
        nearby.see([], on: 2, at: 1)
        #expect(nearby.present(hour: hour).isEmpty && addresses(nearby).isEmpty)
    }

    @Test(arguments: [(-2, nil), (0, nil), (1, nil), (-3, -3), (2, 2), (5, 5)] as [(Int, Int?)])
    func deviceWithAWrongClockIsNoticed(ahead: Int, noticed: Int?) throws {
        var nearby = try nearby()
        let there = UInt32(Int(hour) + ahead)
        nearby.see(
            [try instance("a", of: peer, for: [own], hour: there), try instance("b", of: Device(), for: [own], hour: there)],
            on: 2,
            at: 0
        )
        #expect(nearby.inOtherHour(than: hour) == (noticed.map { [peer.id: $0] } ?? [:]))
        // Its advertisement from before.
        nearby.see([try instance("a", of: peer, for: [own], hour: there), try instance("c", of: peer, for: [own])], on: 2, at: 1)
        #expect(nearby.inOtherHour(than: hour).isEmpty)
    }

    @Test func deviceThatBecomesKnownIsRecognised() throws {
        var nearby = NearbyPeers()
        nearby.see([try instance("a", of: peer, for: [own])], on: 2, at: 0)
        #expect(nearby.present(hour: hour).isEmpty)
        nearby.recognise([peer.id: try own.keys(with: peer)])
        #expect(nearby.present(hour: hour) == [peer.id])
        // And no longer after its revocation.
        nearby.recognise([:])
        #expect(nearby.present(hour: hour).isEmpty && nearby.recognised(on: 2).isEmpty)
    }

    @Test func oldAdvertisementIsNotBelieved() throws {
        var nearby = try nearby()
        nearby.see([try instance("a", of: peer, for: [own], hour: hour - 3)], on: 2, at: 0)
        #expect(nearby.present(hour: hour).isEmpty && addresses(nearby).isEmpty)
        // It was recent once, and is not any more.
        nearby.see([try instance("a", of: peer, for: [own])], on: 2, at: 0)
        #expect(nearby.present(hour: hour) == [peer.id])
        #expect(nearby.present(hour: hour + 3).isEmpty)
    }

    @Test func placeWhereAProofFailedIsLeftAlone() throws {
        var nearby = try nearby()
        nearby.see([try instance("a", of: peer, for: [own], addresses: ["192.168.1.5", "192.168.1.6"])], on: 2, at: 0)
        let candidates = nearby.candidates(for: peer.id, hour: hour, at: 0) { _ in true }
        nearby.failed(candidates[0], peer.id, at: 0, pause: NearbyPeers.falsePause)
        #expect(addresses(nearby) == ["192.168.1.6"])
        #expect(addresses(nearby, at: NearbyPeers.falsePause).count == 2)
        // Failures are bounded.
        for port in 0..<5_000 {
            nearby.failed(
                .init(instance: .root, address: candidates[0].address, port: UInt16(port), interface: 2),
                peer.id,
                at: 0,
                pause: 60_000
            )
        }
        #expect(addresses(nearby).count >= 1)
    }

    @Test func copiesComeAfterWhatWasProved() throws {
        var nearby = try nearby()
        let original = try instance("z", of: peer, for: [own])
        func copy(_ label: String, _ address: String, port: UInt16) -> MulticastBrowser.Instance {
            .init(
                name: .local([label, "_device-relay", "_tcp"]),
                port: port,
                text: original.text,
                addresses: [IPAddress(parsing: address.utf8)].compactMap(\.self)
            )
        }
        // Those of one neighbour, and one each of many.
        let ofOne = (0..<50).map { copy("a\($0)", "192.168.1.100", port: UInt16($0 + 1)) }
        nearby.see(ofOne, on: 2, at: 0)
        nearby.see(ofOne + [original], on: 2, at: 10)
        #expect(addresses(nearby) == ["192.168.1.100", "192.168.1.100", "192.168.1.5"])
        #expect(nearby.recognised(on: 2).count == NearbyPeers.instancesOfAPeer)
        // What failed makes room.
        let ofMany = (0..<20).map { copy("b\($0)", "192.168.1.\(100 + $0)", port: 1) }
        nearby = try self.nearby()
        nearby.see(ofMany, on: 2, at: 0)
        nearby.see(ofMany + [original], on: 2, at: 10)
        for _ in 0..<3 {
            let tried = nearby.candidates(for: peer.id, hour: hour, at: 20) { _ in true }
            #expect(tried.count <= NearbyPeers.maximumCandidates)
            for candidate in tried where candidate.port == 1 { nearby.failed(candidate, peer.id, at: 20, pause: NearbyPeers.falsePause) }
        }
        #expect(addresses(nearby, at: 20) == ["192.168.1.5"])
        nearby.proved(.init(instance: original.name, address: original.addresses[0], port: original.port, interface: 2), peer.id)
        nearby.see(ofMany + [original], on: 3, at: 30)
        #expect(addresses(nearby, at: NearbyPeers.falsePause + 20)[0] == "192.168.1.5")
        #expect(nearby.recognised(on: 2).contains(original.name))
    }

    /// A copy that names the address of another known device does not make that device unreachable.
    @Test func copyAtTheAddressOfAnotherDeviceHarmsNobody() throws {
        let other = Device()
        var nearby = NearbyPeers()
        nearby.recognise([peer.id: try own.keys(with: peer), other.id: try own.keys(with: other)])
        nearby.see([try instance("a", of: peer, for: [own]), try instance("b", of: other, for: [own])], on: 2, at: 0)
        let candidate = nearby.candidates(for: other.id, hour: hour, at: 0) { _ in true }[0]
        nearby.failed(candidate, other.id, at: 0, pause: NearbyPeers.falsePause)
        #expect(addresses(nearby) == ["192.168.1.5"])
    }

    @Test func familiesAlternateAndTwiceSeenIsDialledOnce() throws {
        var nearby = try nearby()
        let all = ["192.168.1.5", "192.168.1.6", "192.168.1.7", "fd00::1", "fe80::1"]
        let instance = try instance("a", of: peer, for: [own], addresses: all)
        nearby.see([instance], on: 2, at: 0)
        nearby.see([instance], on: 3, at: 1)
        let found = nearby.candidates(for: peer.id, hour: hour, at: 2) { _ in true }
        #expect(
            found.map { "\($0.address) \($0.interface)" } == [
                "fd00::1 2", "192.168.1.5 2", "fe80::1 2", "192.168.1.6 2", "fe80::1 3", "192.168.1.7 2",
            ]
        )
        #expect(nearby.candidates(for: peer.id, hour: hour, at: 2) { $0.bytes.count == 4 }.count == 3)
    }

    @Test func placesAreThoseOfRecognisedAdvertisements() throws {
        var nearby = try nearby()
        let stranger = Device()
        let addresses = ["192.168.1.5", "fd00::1"]
        nearby.see(
            [try instance("a", of: peer, for: [own], addresses: addresses), try instance("b", of: stranger, for: [peer])],
            on: 2,
            at: 0
        )
        nearby.see([try instance("a", of: peer, for: [own], addresses: ["192.168.1.5"])], on: 3, at: 0)
        let places = nearby.places(hour: hour)
        #expect(Array(places.keys) == [peer.id])
        #expect(places[peer.id]?.map { "\($0.address) \($0.interface)" } == ["192.168.1.5 2", "fd00::1 2", "192.168.1.5 3"])
        #expect(nearby.places(hour: hour + 4).isEmpty)
    }

    @Test func visibleDevicesAreShown() throws {
        var nearby = try nearby()
        var random = SystemRandomNumberGenerator()
        let visible = Advertisement.Visible(name: "Anna's phone", kind: "phone", mode: .pair)
        let text = Advertisement(of: peer.id, hour: hour, for: [PairKeys](), visible: visible, using: &random).strings
        let name = DNSName.local(["a", "_device-relay", "_tcp"])
        nearby.see([.init(name: name, port: 1, text: text, addresses: [])], on: 2, at: 0)
        #expect(nearby.visible(hour: hour) == [name: visible])
        #expect(nearby.visible(hour: hour + 4).isEmpty)
    }

    @Test func onlyNeighboursAreAdmitted() throws {
        func address(_ text: String) throws -> IPAddress { try #require(IPAddress(parsing: text.utf8)) }
        let link = LinkInterface(index: 2, name: "eth0", addresses: [.init(try address("203.0.113.7"), prefixLength: 24)])
        let admitted = ["10.1.2.3", "172.31.0.1", "192.168.0.1", "100.64.1.1", "169.254.1.1", "fe80::1", "fd12::1", "203.0.113.9"]
        let refused = ["8.8.8.8", "203.0.114.1", "172.32.0.1", "100.128.0.1", "2001:db8::1"]
        let never = ["127.0.0.1", "::1", "224.0.0.251", "ff02::fb", "255.255.255.255", "0.0.0.0", "::"]
        for text in admitted { #expect(NearbyReach.local.admits(try address(text), on: [link]), "\(text)") }
        for text in refused {
            #expect(!NearbyReach.local.admits(try address(text), on: [link]), "\(text)")
            #expect(NearbyReach.any.admits(try address(text), on: [link]), "\(text)")
        }
        for text in never { for reach in NearbyReach.allCases { #expect(!reach.admits(try address(text), on: [link]), "\(text)") } }
    }
}
