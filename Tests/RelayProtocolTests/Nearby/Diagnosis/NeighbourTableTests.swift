// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct NeighbourTableTests {
    private static let text = """
        IP address       HW type     Flags       HW address            Mask     Device
        10.20.30.1       0x1         0x2         52:54:00:00:00:01     *        eth0
        10.20.30.2       0x1         0x0         00:00:00:00:00:00     *        eth0
        10.20.30.3       0x1         0x6         52:54:00:00:00:03     *        eth0
        10.20.30.4       0x1         0x0         00:00:00:00:00:00     *        eth0
        10.20.30.4       0x1         0x2         52:54:00:00:00:04     *        eth1
        """

    @Test(
        arguments: [
            ("10.20.30.1", DialReport.Neighbour.known), ("10.20.30.2", .missing), ("10.20.30.3", .known), ("10.20.30.4", .known),
            ("10.20.30.5", .unknown), ("::1", .unknown),
        ]
    )
    func entriesAreRead(address: String, neighbour: DialReport.Neighbour) throws {
        #expect(NeighbourTable(arp: Self.text)[try #require(IPAddress(parsing: address.utf8))] == neighbour)
    }

    @Test func anyTextIsRead() throws {
        var random = SeededGenerator(seed: 3)
        let address = try #require(IPAddress(parsing: "10.20.30.2".utf8))
        for _ in 0..<2_000 {
            var bytes = Array(Self.text.utf8)
            for _ in 0..<8 { bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random) }
            _ = NeighbourTable(arp: String(decoding: bytes, as: UTF8.self))[address]
        }
        #expect(NeighbourTable(arp: "10.20.30.2 0x1 0xfffffffff x")[address] == .unknown)
        #expect(NeighbourTable(arp: "")[address] == .unknown)
    }
}

@Suite struct MulticastProbeTests {
    /// Others take it for a question that is not theirs.
    @Test func probeIsAnOrdinaryQuestion() throws {
        var random = SeededGenerator(seed: 5)
        let probe = MulticastProbe(using: &random)
        let message = try DNSMessage(decoding: probe.message.encoded())
        #expect(message == probe.message && !message.isResponse && message.questions.map(\.name) == [probe.name])
        #expect(probe.name.parent == DeviceRelayService.type)
        #expect(MulticastProbe(nonce: probe.nonce) == probe)
        let instance = ServiceInstance(.init(using: &random), port: 9, text: [], addresses: [])
        var responder = MulticastResponder(instance, at: 0, using: &random)
        for time in stride(from: Int64(0), through: 5_000, by: 100) { _ = responder.tick(at: time) }
        #expect(responder.received(message, isLegacy: false, at: 5_000, using: &random) == [])
        for time in stride(from: Int64(5_000), through: 8_000, by: 100) { #expect(responder.tick(at: time) == []) }
    }

    @Test(arguments: [0, 9, 11, 1_000]) func nonceHasOneLength(count: Int) {
        #expect(MulticastProbe(nonce: Array(repeating: 0, count: count)) == nil)
    }
}
