// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// What passes through tunnels, over real sockets.
@Suite(.timeLimit(.minutes(10)), .serialized) struct TunnelSpliceTests {
    static let pairs: [(TunnelClient.Transport, TunnelClient.Transport)] = [(.tcp, .tcp), (.tcp, .webSocket), (.webSocket, .webSocket)]

    @Test(arguments: pairs)
    func everyByteArrivesBothWaysAtOnce(opener: TunnelClient.Transport, target: TunnelClient.Transport) async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let (one, other) = try await world.pair(phone, pc, opener, target)
            let count = Sweep.isQuick ? 8 << 20 : 64 << 20
            async let forth = one.pump(count, seed: 1)
            async let back = other.pump(count, seed: 2)
            let (sentForth, sentBack) = try await (forth, back)
            let (atOther, atOne) = (await other.received(count), await one.received(count))
            #expect(atOther.count == count && atOther.digest == sentForth)
            #expect(atOne.count == count && atOne.digest == sentBack)
            try await one.finish()
            try await other.finish()
            await one.ended()
            await other.ended()
            #expect(try await eventually { world.isEmpty })
            // All of it was counted, the transports apart.
            let text = world.relay.metrics.text
            for (transport, sides) in [
                ("tcp", [opener, target].count { $0 == .tcp }), ("webSocket", [opener, target].count { $0 == .webSocket }),
            ] {
                for direction in ["in", "out"] {
                    let line = "relay_tunnel_bytes_total{direction=\"\(direction)\",transport=\"\(transport)\"} \(sides * count)\n"
                    #expect(text.contains(line))
                }
            }
        }
    }

    @Test(arguments: pairs + [(.webSocket, .tcp)])
    func halfCloseIsPassedOn(opener: TunnelClient.Transport, target: TunnelClient.Transport) async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let (one, other) = try await world.pair(phone, pc, opener, target)
            try await one.send("question")
            try await one.finish()
            #expect(await other.received(100).text == "question")
            #expect(other.isEnded)
            #expect(!one.isEnded)
            // The other way is open still.
            let sent = try await other.pump(3 << 20, seed: 3)
            #expect(await one.received(3 << 20).digest == sent)
            #expect(!one.isEnded)
            try await other.finish()
            await one.ended()
            #expect(!one.isBroken && !other.isBroken)
            await one.ended()
            await other.ended()
            #expect(try await eventually { world.isEmpty })
        }
    }

    @Test(arguments: pairs + [(.webSocket, .tcp)])
    func killedSideClosesTheOther(victim: TunnelClient.Transport, other: TunnelClient.Transport) async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let (one, two) = try await world.pair(phone, pc, victim, other)
            async let pumping = try? two.pump(1 << 30, seed: 4)
            _ = await one.received(1 << 20)
            try await one.kill()
            await two.ended()
            // Its sender is stopped, rather than left with bytes that go nowhere.
            #expect(await pumping == nil)
            #expect(try await eventually { world.isEmpty })
        }
    }

    @Test(arguments: pairs)
    func slowReaderStopsOnlyItsSender(opener: TunnelClient.Transport, target: TunnelClient.Transport) async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let (fast, slow) = try await world.pair(phone, pc, opener, target)
            try await slow.setReading(false)
            let count = 64 << 20
            async let pumping = fast.pump(count, seed: 5)
            // What is sent fills the sockets, then the relay's bound, and then no more is read. A socket may still take some of it after
            // that, so what stays is anything above the low water mark. Of what is spliced, one read waits.
            let bound = (opener, target) == (.tcp, .tcp) ? 1 : TunnelPipe.lowWater + 1
            for _ in 0..<12_000 where try await world.bytesInFlight() < bound { try await Task.sleep(for: .milliseconds(5)) }
            #expect(try await world.bytesInFlight() >= bound)
            // Meanwhile another pair of the same endpoints continues.
            let (one, two) = try await world.pair(phone, pc, target, opener)
            let sent = try await one.pump(16 << 20, seed: 6)
            #expect(await two.received(16 << 20).digest == sent)
            #expect(try await world.bytesInFlight() <= TunnelPipe.highWater + 5 * 65_536)
            #expect(slow.count < count)
            try await slow.setReading(true)
            let digest = try await pumping
            #expect(await slow.received(count).digest == digest)
        }
    }

    @Test(arguments: pairs)
    func sideKilledWithTheFirstBytesClosesTheTunnel(opener: TunnelClient.Transport, target: TunnelClient.Transport) async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            for round in 0..<30 {
                let (one, other) = try await world.pair(phone, pc, opener, target)
                async let sending: Void? = try? await one.send("first")
                if round.isMultiple(of: 2) { async let _ = try? await other.send("first too") }
                try await other.kill()
                await one.ended()
                _ = await sending
            }
            #expect(try await eventually { world.isEmpty })
        }
    }

    @Test func simultaneousHalfClosesLoseNothing() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            for _ in 0..<30 {
                let (one, other) = try await world.pair(phone, pc)
                async let forth: Void = {
                    try await one.send("there"); try await one.finish()
                }()
                async let back: Void = {
                    try await other.send("back"); try await other.finish()
                }()
                _ = try await (forth, back)
                #expect(await other.received(100).text == "there")
                #expect(await one.received(100).text == "back")
                await one.ended()
                await other.ended()
                #expect(!one.isBroken && !other.isBroken)
            }
            #expect(try await eventually { world.isEmpty })
        }
    }

    @Test func bytesAfterThePrefaceArrive() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrances = try await world.entrances(phone, pc)
            let socket = try await TestSocket(port: entrances.opener.tcpPort)
            let preface = TunnelPreface(tunnel: entrances.opener.tunnel, token: entrances.opener.token)
            try await socket.send(preface.bytes + Array("early".utf8))
            try await socket.send(" and a little later")
            let other = try await TunnelClient(.tcp, entrances.target, at: world.relay)
            #expect(await other.received(24).text == "early and a little later")
            #expect(await socket.bytes { !$0.isEmpty } == [0])
        }
    }

    @Test func pingsAreAnswered() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrances = try await world.entrances(phone, pc)
            let socket = try await world.relay.connect()
            try await socket.send(TunnelClient.request(entrances.opener, at: world.relay))
            let other = try await TunnelClient(.tcp, entrances.target, at: world.relay)
            let answer = await socket.answer()
            #expect(answer.hasPrefix("HTTP/1.1 101"))
            #expect(answer.lowercased().contains("sec-websocket-protocol: device-relay.tunnel.v1\r\n"))
            let client = TestWebSocket(socket: socket)
            try await client.send(opcode: 9, Array("are you there".utf8))
            #expect(await client.frame() == .pong(Array("are you there".utf8)))
            try await client.send(opcode: 2, Array("a".utf8), isFinal: false)
            try await client.send(opcode: 9, [])
            #expect(await client.frame() == .pong([]))
            try await client.send(opcode: 0, Array("b".utf8))
            #expect(await other.received(2).text == "ab")
            // A broken rule ends it, and the other side with it.
            try await client.send(opcode: 1, Array("text".utf8))
            #expect(await client.closeCode() == 1003)
            await other.ended()
        }
    }
}
