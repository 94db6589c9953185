// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

/// What a peer can make this endpoint do for a diagnosis. A caller may lie about its addresses.
@Suite struct DiagnosisAttackTests {
    private func address(_ text: String) throws -> IPAddress { try #require(IPAddress(parsing: text.utf8)) }

    private func link(_ index: Int, _ text: String, prefixLength: Int = 24) throws -> LinkInterface {
        LinkInterface(index: index, name: "eth\(index)", addresses: [.init(try address(text), prefixLength: prefixLength)])
    }

    private func dialled(_ texts: [String], _ reach: NearbyReach = .local) throws -> [String] {
        let links = [try link(2, "192.168.1.5"), try link(3, "2001:db8::5", prefixLength: 64)]
        return reach.dialled(of: try texts.map(address), on: links).map(\.description)
    }

    @Test(
        arguments: [
            "8.8.8.8", "127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "224.0.0.251",
            "255.255.255.255", "ff02::fb",
            "2001:4860::1", "169.254.1.1", "fe80::1",
            // This machine's own.
            "192.168.1.5", "2001:db8::5", "::ffff:192.168.1.5",
        ]
    )
    func foreignAddressIsNotDialled(text: String) throws {
        #expect(try dialled([text]) == [])
        #expect(try dialled([text, "192.168.1.9"]) == ["192.168.1.9"])
    }

    @Test func ownAddressAtAnotherInterfaceIsNotDialled() throws {
        let bridge = try address("172.17.0.1")
        let links = [try link(2, "192.168.1.5")]
        #expect(NearbyReach.local.dialled(of: [bridge], on: links, own: [bridge]).isEmpty)
        #expect(NearbyReach.local.dialled(of: [bridge], on: links) == [bridge])
    }

    @Test func addressesOfOtherNetworksAreNotDialledBesideNeighbours() throws {
        #expect(try dialled(["10.1.2.3", "192.168.1.9", "172.17.0.1", "2001:db8::9"]) == ["192.168.1.9", "2001:db8::9"])
        // A router may lead to a private one.
        #expect(try dialled(["10.1.2.3"]) == ["10.1.2.3"])
        #expect(try dialled(["8.8.8.8"], .any) == ["8.8.8.8"])
        #expect(try dialled(["127.0.0.1", "224.0.0.1", "192.168.1.5"], .any) == [])
    }

    @Test func anyAddressesAreAdmittedOnesOnly() throws {
        var random = SeededGenerator(seed: 7)
        let links = [try link(2, "192.168.1.5"), try link(3, "10.0.0.1", prefixLength: 8)]
        for _ in 0..<2_000 {
            let named = (0..<Int.random(in: 0...8, using: &random)).compactMap { _ -> IPAddress? in
                var bytes = random.bytes(Bool.random(using: &random) ? 4 : 16)
                if random.oneIn(2) { bytes.replaceSubrange(0..<3, with: [192, 168, 1]) }
                return IPAddress(bytes: bytes)
            }
            // Some are this machine's own, at interfaces that are not used.
            let own = Set(named.filter { _ in random.oneIn(3) })
            let dialled = NearbyReach.local.dialled(of: named, on: links, own: own)
            #expect(dialled.count <= named.count && own.isDisjoint(with: dialled))
            for address in dialled {
                #expect(named.contains(address) && NearbyReach.local.admits(address, on: links))
                #expect(!links.contains { $0.addresses.contains { $0.address == address } })
            }
        }
    }

    @Test func oneDialAtATimeAndNotOften() {
        var gate = DiagnosisGate()
        let begun = gate.begin(.dial, at: 0)
        #expect(begun)
        for time in [0, 9_999, 10_000, 60_000] as [Int64] {
            let second = gate.begin(.dial, at: Milliseconds(clamping: time))
            #expect(!second, "the first one runs")
        }
        gate.end(.dial)
        let next = gate.begin(.dial, at: 70_000)
        gate.end(.dial)
        let early = gate.begin(.dial, at: 79_999)
        let late = gate.begin(.dial, at: 80_000)
        #expect(next && !early && late)
    }

    @Test(arguments: [DiagnosisGate.Work.hear, .say]) func packetsAreLimited(work: DiagnosisGate.Work) {
        var gate = DiagnosisGate()
        var count = 0
        for time in stride(from: Int64(0), to: 600_000, by: 500) where gate.begin(work, at: Milliseconds(clamping: time)) {
            count += 1
            gate.end(work)
        }
        #expect(count <= 6 + 60)
        // Other work waits for none of it.
        let dial = gate.begin(.dial, at: 600_000)
        #expect(dial)
    }
}
