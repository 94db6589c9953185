// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Testing

@testable import RelayServer

/// Which connections may join a tunnel.
@Suite(.timeLimit(.minutes(10))) struct TunnelEntryTests {
    typealias Transport = TunnelClient.Transport
    /// What a token that does not fit is answered with.
    static let refused: [Transport: Int] = [.tcp: 1, .webSocket: 404]

    @Test func anOfferIntroducesTheOpener() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let id = try await phone.open(pc.id)
            let (ready, offer) = (try await phone.ready(), try await pc.offer())
            #expect(ready.tunnel == id && offer.entrance.tunnel == id)
            #expect(ready.token != offer.entrance.token)
            #expect(ready.urls == offer.entrance.urls)
            #expect(ready.urls == ["tcp://:\(try ready.tcpPort)", "wss:///v1/tunnels/\(id)"])
            #expect(try Signed<EndpointRecord>(verifying: offer.opener.record.bytes).payload.endpointID == phone.id)
        }
    }

    @Test func withoutATunnelPortTheWebSocketIsUsed() async throws {
        try await TunnelWorld.with(configure: { $0.tunnelListen = [] }) { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            _ = try await phone.open(pc.id)
            let entrance = try await phone.ready()
            #expect(entrance.urls == ["wss:///v1/tunnels/\(entrance.tunnel)"])
            let one = try await TunnelClient(.webSocket, entrance, at: world.relay)
            let two = try await TunnelClient(.webSocket, try await pc.offer().entrance, at: world.relay)
            try await one.send("by WebSocket alone")
            #expect(await two.received(18).text == "by WebSocket alone")
        }
    }

    @Test func endpointOfAnotherAccountIsNotFound() async throws {
        try await TunnelWorld.with { world in
            let (phone, outsider) = (try await world.connect(), try await world.connect(token: FixedTokens.other))
            let unknown = TransportTestEndpoint().id
            for target in [outsider.id, unknown] { #expect(try await phone.ask(target).failure?.code == .notFound) }
            #expect(try await phone.ask(phone.id).failure?.code == .unsupported)
            #expect(world.isEmpty)
        }
    }

    @Test(arguments: Transport.allCases)
    func tokenWorksForItsSideOfItsTunnelOnly(transport: Transport) async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let first = try await world.entrances(phone, pc)
            let second = try await world.entrances(phone, pc)
            // Swapped between tunnels, made up, and of a tunnel that is not there.
            var swapped = first.opener
            swapped.token = second.opener.token
            var made = first.opener
            made.token = Secret(Blob(Array(repeating: 7, count: 32)))
            var gone = first.opener
            var random = SystemRandomNumberGenerator()
            gone.tunnel = TunnelID(using: &random)
            for entrance in [swapped, made, gone] {
                let client = try await TunnelClient(transport, entrance, at: world.relay)
                #expect(await client.status() == Self.refused[transport])
                await client.close()
            }
            // Stolen by another account's endpoint, it is a token like any other to the relay; the endpoints' TLS fails then. But
            // both sides by one token is nothing.
            let one = try await TunnelClient(transport, first.opener, at: world.relay)
            // Before the second one, because the order in which two connections are served is not defined.
            #expect(try await eventually { world.core.entrantCount == 1 })
            let again = try await TunnelClient(transport, first.opener, at: world.relay)
            #expect(await one.status() == (transport == .tcp ? 4 : 409))
            let other = try await TunnelClient(transport, first.target, at: world.relay)
            #expect(await again.status() == TunnelClient.paired[transport])
            try await other.send("used")
            #expect(await again.received(4).text == "used")
            // Replayed, while it is in use and afterwards.
            for entrance in [first.opener, first.target] {
                let late = try await TunnelClient(transport, entrance, at: world.relay)
                #expect(await late.status() == Self.refused[transport])
                await late.close()
            }
            await other.close()
            await again.ended()
            let late = try await TunnelClient(transport, first.opener, at: world.relay)
            #expect(await late.status() == Self.refused[transport])
            #expect(world.relay.metrics.text.contains("relay_tunnel_joins_rejected_total 6\n"))
        }
    }

    @Test func newerConnectionReplacesTheOlderUntilBytesPass() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrances = try await world.entrances(phone, pc)
            let one = try await TunnelClient(.tcp, entrances.opener, at: world.relay)
            let older = try await TunnelClient(.tcp, entrances.target, at: world.relay)
            #expect(await one.status() == 0)
            #expect(await older.status() == 0)
            let newer = try await TunnelClient(.webSocket, entrances.target, at: world.relay)
            #expect(await newer.status() == 101)
            await older.ended()
            try await one.send("to the newer one")
            #expect(await newer.received(16).text == "to the newer one")
            try await newer.send("and back")
            #expect(await one.received(8).text == "and back")
            #expect(older.count == 0)
        }
    }

    /// Both sides reconnect repeatedly, while the other one sends at once. The connection that is paired last gets all bytes.
    @Test func bytesReachTheConnectionThatIsPaired() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            for _ in 0..<50 {
                let entrances = try await world.entrances(phone, pc)
                let socket = try await TestSocket(port: entrances.opener.tcpPort)
                let preface = TunnelPreface(tunnel: entrances.opener.tunnel, token: entrances.opener.token)
                try await socket.send(preface.bytes + Array("hello".utf8))
                async let first = TunnelClient(.tcp, entrances.target, at: world.relay)
                async let second = TunnelClient(.tcp, entrances.target, at: world.relay)
                let both = try await [first, second]
                let texts = [await both[0].received(5).text, await both[1].received(5).text]
                #expect(texts.sorted() == ["", "hello"])
                for client in both { await client.close() }
                await socket.close()
            }
            #expect(try await eventually { world.isEmpty })
        }
    }

    @Test func prefaceMayArriveByteByByte() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrances = try await world.entrances(phone, pc)
            let socket = try await TestSocket(port: entrances.opener.tcpPort)
            for byte in TunnelPreface(tunnel: entrances.opener.tunnel, token: entrances.opener.token).bytes {
                try await socket.send([byte])
            }
            let other = try await TunnelClient(.tcp, entrances.target, at: world.relay)
            #expect(await socket.bytes { !$0.isEmpty } == [0])
            try await other.send("x")
            #expect(await socket.bytes { $0.count == 2 } == [0, UInt8(ascii: "x")])
        }
    }

    @Test(arguments: ["GET / HTTP/1.1\r\n\r\n", "D", "DRT2", "DRT", "\u{16}\u{3}\u{1}", String(repeating: "DRT0", count: 50_000)])
    func invalidPrefaceGetsNoAnswer(text: String) async throws {
        try await TunnelWorld.with(configure: { $0.limits[.helloSeconds] = 5 }) { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let port = try await world.entrances(phone, pc).opener.tcpPort
            let socket = try await TestSocket(port: port)
            // The relay may close before it has read all.
            try? await socket.send(text)
            #expect(await socket.textUntilClosed().isEmpty)
            let silent = try await TestSocket(port: port)
            #expect(await silent.textUntilClosed().isEmpty)
            #expect(try await eventually { world.relay.unauthenticated.total == 0 })
        }
    }

    @Test func unauthenticatedConnectionsAreCountedOnBothPorts() async throws {
        try await TunnelWorld.with(configure: { $0.unauthenticatedPerAddress = 2 }) { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrances = try await world.entrances(phone, pc)
            let port = try entrances.opener.tcpPort
            let one = try await TunnelClient(.tcp, entrances.opener, at: world.relay)
            let two = try await TunnelClient(.webSocket, entrances.target, at: world.relay)
            #expect(await two.status() == 101)
            #expect(await one.status() == 0)
            // A paired connection does not count.
            #expect(world.relay.unauthenticated.total == 0)
            let unauthenticated = [try await TestSocket(port: port), try await TestSocket(port: port)]
            #expect(try await eventually { world.relay.unauthenticated.total == 2 })
            let third = try await TestSocket(port: port)
            #expect(await third.textUntilClosed().isEmpty)
            #expect(unauthenticated.allSatisfy { !$0.isClosed })
        }
    }

    @Test(
        arguments: [
            (["Authorization": nil], 401), (["Authorization": "Bearer AAAA"], 401), (["Authorization": "Tunnel AAAA"], 401),
            (["Sec-WebSocket-Protocol": "device-relay.v1"], 400), (["Origin": "https://evil.example"], 403),
            (["Host": "evil.example"], 421),
        ] as [([String: String?], Int)]
    )
    func invalidUpgradeRequestIsRejected(fields: [String: String?], status: Int) async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrance = try await world.entrances(phone, pc).opener
            let socket = try await world.relay.connect()
            try await socket.send(TunnelClient.request(entrance, at: world.relay, fields: fields))
            #expect(await socket.answer().hasPrefix("HTTP/1.1 \(status) "))
            // The token is not used up by it.
            let client = try await TunnelClient(.webSocket, entrance, at: world.relay)
            #expect(try await eventually { world.core.entrantCount == 1 })
            await client.close()
            let plain = try await world.relay.connect()
            try await plain.send("GET /v1/tunnels/\(entrance.tunnel) HTTP/1.1\r\nHost: \(world.relay.host)\r\n\r\n")
            #expect(await plain.answer().hasPrefix("HTTP/1.1 426 "))
        }
    }
}
