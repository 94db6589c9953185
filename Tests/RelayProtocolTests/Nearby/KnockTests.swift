// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct KnockTests {
    private struct Device {
        let id = EndpointID(P256SigningKey().publicKey)
        let key = P256LinkKey()

        func keys(with other: Device) throws -> PairKeys { try PairKeys(key, of: id, with: other.key.publicKey, of: other.id) }
    }

    private let own = Device()
    private let peer = Device()

    private func listener() -> KnockExchange.Listener {
        var random = SystemRandomNumberGenerator()
        return KnockExchange.Listener(own: own.id, using: &random)
    }

    private func dialer(_ device: Device? = nil, to listener: Device? = nil) throws -> KnockExchange.Dialer {
        var random = SystemRandomNumberGenerator()
        let (device, listener) = (device ?? peer, listener ?? own)
        return KnockExchange.Dialer(own: device.id, peer: listener.id, keys: try device.keys(with: listener), using: &random)
    }

    private func keys(_ devices: [Device]) throws -> [EndpointID: PairKeys] {
        try Dictionary(uniqueKeysWithValues: devices.map { ($0.id, try own.keys(with: $0)) })
    }

    private func answer(_ step: KnockExchange.Dialer.Step) throws -> [UInt8] {
        guard case .send(let bytes) = step else { throw Unexpected() }
        return bytes
    }

    private struct Unexpected: Error {}

    @Test(arguments: [1, 7, 100]) func knownDeviceIsLetIn(chunk: Int) throws {
        var (listener, dialer) = (listener(), try dialer())
        func chunks(_ bytes: [UInt8]) -> [[UInt8]] {
            stride(from: 0, to: bytes.count, by: chunk).map { Array(bytes[$0..<min($0 + chunk, bytes.count)]) }
        }
        var sent = KnockExchange.Dialer.Step.more
        for part in chunks(listener.greeting) {
            #expect(sent == .more)
            sent = dialer.receive(part)
        }
        var step = KnockExchange.Listener.Step.more
        let keys = try keys([Device(), peer, Device()])
        for part in chunks(try answer(sent)) {
            #expect(step == .more)
            step = listener.receive(part, keys)
        }
        #expect(step == .known(peer.id))
        #expect(dialer.receive([]) == .more)
        #expect(dialer.receive([KnockExchange.accepted]) == .accepted)
        #expect(dialer.receive([0]) == .refused)
    }

    @Test func strangerIsRefused() throws {
        var (listener, dialer) = (listener(), try dialer(Device()))
        let known = try keys([peer])
        let knock = try answer(dialer.receive(listener.greeting))
        #expect(listener.receive(knock, known) == .refused)
        let other = try answer(self.dialer().receive(of: self.listener().greeting))
        #expect(self.listener().receive(of: other, [:]) == .refused)
    }

    @Test func replayedAndReflectedKnocksAreRefused() throws {
        let keys = try keys([peer])
        var (first, dialer) = (listener(), try dialer())
        let knock = try answer(dialer.receive(first.greeting))
        #expect(first.receive(knock, keys) == .known(peer.id))
        // The same bytes to another challenge.
        var second = listener()
        #expect(second.receive(knock, keys) == .refused)
        // The own proof, sent back by somebody who answers the own challenge with it: the roles are in it.
        var own = KnockExchange.Dialer(own: own.id, peer: peer.id, keys: try self.own.keys(with: peer), using: &Self.random)
        var third = listener()
        let reflected = try answer(own.receive(third.greeting))
        #expect(third.receive(reflected, keys) == .refused)
    }

    nonisolated(unsafe) private static var random = SystemRandomNumberGenerator()

    @Test func eachChangedBitIsRefused() throws {
        let keys = try keys([peer])
        for bit in 0..<(KnockExchange.answerBytes * 8) {
            var (listener, dialer) = (listener(), try dialer())
            var knock = try answer(dialer.receive(listener.greeting))
            knock[bit / 8] ^= 1 << UInt8(bit % 8)
            let step = listener.receive(knock, keys)
            // One kind is another one that has no proof.
            #expect(step == (bit == 4 * 8 ? .pairing : .refused), "bit \(bit)")
        }
    }

    @Test func bytesBeforeTheirTimeAreRefused() throws {
        var (one, dialer) = (listener(), try dialer())
        let knock = try answer(dialer.receive(one.greeting))
        let known = try keys([peer])
        #expect(one.receive(knock + [1], known) == .refused)
        var early = try self.dialer()
        #expect(early.receive(one.greeting + [0]) == .refused)
        var other = try self.dialer()
        _ = other.receive(one.greeting)
        #expect(other.receive([1]) == .refused)
        var chatty = try self.dialer()
        _ = chatty.receive(one.greeting)
        #expect(chatty.receive([0, 22]) == .refused)
        var web = listener()
        #expect(web.receive(Array("GET / HTTP/1.1\r\n".utf8), [:]) == .refused)
        var ssh = try self.dialer()
        #expect(ssh.receive(Array("SSH-2.0-x".utf8)) == .refused)
    }

    @Test func pairingHasNoProof() throws {
        var dialer = KnockExchange.Dialer(own: peer.id, peer: own.id, keys: nil, using: &Self.random)
        var listener = listener()
        let knock = try answer(dialer.receive(listener.greeting))
        let known = try keys([peer])
        #expect(listener.receive(knock, known) == .pairing)
    }

    /// Generated bytes never trap, and never let anybody in.
    @Test(arguments: 0..<10) func generatedBytesAreRefused(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let keys = try keys([peer])
        for _ in 0..<200 {
            var (listener, dialer) = (listener(), try dialer())
            for _ in 0..<6 {
                let bytes = (Bool.random(using: &random) ? Knock.magic : []) + random.bytes(Int.random(in: 0...60, using: &random))
                let step = listener.receive(bytes, keys)
                if case .known = step { Issue.record("let in") }
                #expect(dialer.receive(bytes) != .accepted)
            }
        }
    }

    // MARK: Limits

    private func source(_ number: Int, isOnLink: Bool = true) throws -> KnockGate.Source {
        .init(try #require(IPAddress(parsing: "10.0.\(number / 200).\(number % 200 + 1)".utf8)), isOnLink: isOnLink)
    }

    @Test func addressHasFewUnprovedConnections() throws {
        var (gate, random) = (KnockGate(), SeededGenerator(seed: 1))
        let admitted = try (0..<20).map { _ in gate.admit(try source(0), at: 0, using: &random) }
        #expect(admitted.count { $0 != .refused } == KnockGate.ofAnAddress)
        // Another one is not hindered, and one that has proved itself does not count.
        #expect(gate.admit(try source(1), at: 0, using: &random) != .refused)
        guard case .admitted(let id, nil) = admitted[0] else { throw Unexpected() }
        gate.leave(id)
        #expect(gate.admit(try source(0), at: 0, using: &random) != .refused)
    }

    @Test func householdsElsewhereCountAsOne() throws {
        func source(_ text: String, isOnLink: Bool) throws -> KnockGate.Source {
            .init(try #require(IPAddress(parsing: text.utf8)), isOnLink: isOnLink)
        }
        let elsewhere = try ["2001:db8::1", "2001:db8::2"].map { try source($0, isOnLink: false) }
        #expect(elsewhere[0] == elsewhere[1])
        let neighbours = try ["2001:db8::1", "2001:db8::2"].map { try source($0, isOnLink: true) }
        #expect(neighbours[0] != neighbours[1])
    }

    @Test func fullListenerMakesRoomAtRandom() throws {
        var (gate, random) = (KnockGate(), SeededGenerator(seed: 1))
        var closed: Set<KnockGate.ID> = []
        for number in 0..<1_000 {
            guard case .admitted(_, let closing) = gate.admit(try source(number), at: 0, using: &random) else { throw Unexpected() }
            #expect((closing != nil) == (number >= KnockGate.maximum))
            if let closing { #expect(closed.insert(closing).inserted) }
            #expect(gate.count <= KnockGate.maximum)
        }
    }

    @Test func addressThatKnocksWronglyBecomesSlow() throws {
        var (gate, random) = (KnockGate(), SeededGenerator(seed: 1))
        var now: Int64 = 1_000
        func knock(_ source: KnockGate.Source) -> Bool {
            guard case .admitted(let id, _) = gate.admit(source, at: Milliseconds(clamping: now), using: &random) else { return false }
            gate.knockedWrongly(id, at: Milliseconds(clamping: now))
            return true
        }
        let admitted = try (0..<30).count { _ in knock(try source(0)) }
        // Those of the rate, the one that shows that there are too many, and one a second.
        #expect(admitted == 22)
        #expect(knock(try source(1)))
        now += 500
        #expect(!knock(try source(0)))
        now += 500
        #expect(knock(try source(0)))
        now += 200_000
        let again = try (0..<2).count { _ in knock(try source(0)) }
        #expect(again == 2)
    }
}

extension KnockExchange.Listener {
    fileprivate func receive(of bytes: [UInt8], _ keys: [EndpointID: PairKeys]) -> Step {
        var copy = self
        return copy.receive(bytes, keys)
    }
}

extension KnockExchange.Dialer {
    fileprivate func receive(of bytes: [UInt8]) -> Step {
        var copy = self
        return copy.receive(bytes)
    }
}
