// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Testing

@testable import RelayServer

/// How tunnels come about and end, as the endpoints see it.
@Suite(.timeLimit(.minutes(10))) struct TunnelLifeTests {
    typealias Transport = TunnelClient.Transport

    @Test(arguments: Transport.allCases)
    func tunnelTimesOutWhenOneSideNeverConnects(transport: Transport) async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrances = try await world.entrances(phone, pc)
            let client = try await TunnelClient(transport, entrances.opener, at: world.relay)
            #expect(try await eventually { world.core.entrantCount == 1 })
            world.pass(9_999)
            #expect(world.core.entrantCount == 1)
            world.pass(1)
            #expect(await client.status() == (transport == .tcp ? 2 : 504))
            for party in [phone, pc] {
                let failed = try await party.failed()
                #expect(failed.code == .timedOut && failed.tunnel == entrances.opener.tunnel)
            }
            let late = try await TunnelClient(transport, entrances.target, at: world.relay)
            #expect(await late.status() == TunnelEntryTests.refused[transport])
            await client.close()
            #expect(try await eventually { world.isEmpty })
            #expect(world.relay.metrics.text.contains("relay_tunnels_failed_total{reason=\"timedOut\"} 2\n"))
        }
    }

    @Test func disconnectedTargetGetsTheOfferWhenItReturns() async throws {
        try await TunnelWorld.with { world in
            let (phone, endpoint) = (try await world.connect(), TransportTestEndpoint())
            // Known, and gone; a client is no host.
            await (try await world.connect(endpoint)).disconnect()
            let client = try await world.connect(endpoint, role: .client)
            #expect(try await eventually { world.core.channelCount == 2 })
            let at = try await phone.open(endpoint.id, timeout: 0)
            let failed = try await phone.failed()
            #expect(failed.tunnel == at && failed.code == .unreachable)

            let waited = try await phone.open(endpoint.id, timeout: 20_000)
            world.pass(19_999)
            let pc = try await world.connect(endpoint)
            #expect(try await pc.offer().entrance.tunnel == waited)
            #expect(try await phone.ready().tunnel == waited)
            // Its channel breaks; the next one hears of it again.
            await pc.disconnect()
            let again = try await world.connect(endpoint)
            let offer = try await again.offer()
            #expect(offer.entrance.tunnel == waited)
            try await client.control.send(.tunnelDecline(.init(tunnel: waited)))
            try await again.control.send(.tunnelDecline(.init(tunnel: waited)))
            #expect(try await phone.failed().code == .declined)

            await again.disconnect()
            #expect(try await eventually { world.core.channelCount == 2 })
            _ = try await phone.open(endpoint.id, timeout: 20_000)
            world.pass(20_000)
            #expect(try await phone.failed().code == .timedOut)
            #expect(world.isEmpty)
        }
    }

    @Test(arguments: Transport.allCases)
    func tunnelIsCancelledWhenTheOpenerLeavesOrDeclines(transport: Transport) async throws {
        try await TunnelWorld.with { world in
            let pc = try await world.connect()
            for declines in [true, false] {
                let phone = try await world.connect()
                let entrances = try await world.entrances(phone, pc)
                let waiting = try await TunnelClient(transport, entrances.target, at: world.relay)
                #expect(try await eventually { world.core.entrantCount == 1 })
                if declines {
                    try await phone.control.send(.tunnelDecline(.init(tunnel: entrances.opener.tunnel)))
                } else {
                    await phone.disconnect()
                }
                let failed = try await pc.failed()
                #expect(failed.code == .cancelled)
                #expect(await waiting.status() == (transport == .tcp ? 3 : 410))
                await waiting.close()
                #expect(try await eventually { world.isEmpty })
            }
        }
    }

    @Test func pairedTunnelOutlivesItsControlChannels() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let (one, two) = try await world.pair(phone, pc, .tcp, .webSocket)
            await phone.disconnect()
            await pc.disconnect()
            #expect(try await eventually { world.core.channelCount == 0 })
            world.pass(1_000_000)
            try await one.send("still there")
            #expect(await two.received(11).text == "still there")
        }
    }

    @Test(arguments: [true, false])
    func revokedEndpointLosesItsTunnels(isOpener: Bool) async throws {
        try await TunnelWorld.with { world in
            let (revoker, phone, pc) = (try await world.connect(), try await world.connect(), try await world.connect())
            let (one, two) = try await world.pair(phone, pc, .tcp, .webSocket)
            try await one.send("x")
            _ = await two.received(1)
            let (others, same) = try await world.pair(revoker, isOpener ? pc : phone)
            let revoked = isOpener ? phone : pc
            let revocation = try await world.revocation(of: revoked.id, by: revoker)
            try await revoker.control.send(.endpointRevoke(.init(ref: .first, endpoint: revoked.id, revocation: revocation)))
            #expect(try await revoker.control.message().isOK)
            await one.ended()
            await two.ended()
            try await others.send("untouched")
            #expect(await same.received(9).text == "untouched")
        }
    }

    @Test func tunnelsPerEndpointAreLimited() async throws {
        try await TunnelWorld.with(configure: { $0.limits[.sessionsPerEndpoint] = 2 }) { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let other = try await world.connect(token: FixedTokens.other)
            let third = try await world.connect(token: FixedTokens.other)
            let (one, two) = try await world.pair(phone, pc)
            let others = try await world.pair(phone, pc)
            let failure = try #require(try await phone.ask(pc.id).failure)
            #expect(failure.code == .limitExceeded)
            #expect(failure.limit?.error == LimitExceeded(limit: .sessionsPerEndpoint, allowed: 2, requested: 3))
            // Another account has its own.
            let ofOtherAccount = try await world.pair(other, third)
            await one.close()
            await two.ended()
            // One side's end leaves the other direction open, and the tunnel counted.
            #expect(try await phone.ask(pc.id).failure?.code == .limitExceeded)
            await two.close()
            #expect(try await eventually { world.core.accounts.contains { $0.tunnels.tunnels(of: phone.id).count == 1 } })
            let next = try await world.pair(phone, pc)
            // They were there all the time.
            for pair in [others, ofOtherAccount, next] {
                try await pair.0.send("x")
                #expect(await pair.1.received(1).text == "x")
            }
        }
    }

    @Test func closedTunnelsLeaveNoResources() async throws {
        try await TunnelWorld.with(configure: { $0.limits[.tunnelOpensPerSecond] = 1_000 }) { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            for index in 0..<500 {
                let transport: Transport = index % 5 == 0 ? .webSocket : .tcp
                let (one, two) = try await world.pair(phone, pc, transport, .tcp)
                if index % 2 == 0 {
                    try await one.send("x")
                    _ = await two.received(1)
                }
                await (index % 3 == 0 ? two : one).close()
                await (index % 3 == 0 ? one : two).close()
            }
            #expect(try await eventually { world.isEmpty && world.relay.service.connections.current == 2 })
            #expect(world.relay.metrics.text.contains("relay_tunnel_connections 0\n"))
            #expect(world.relay.metrics.text.contains("relay_tunnels 0\n"))
            #expect(world.relay.metrics.text.contains("relay_tunnels_opened_total 500\n"))
            #expect(world.relay.metrics.text.contains("relay_tunnels_paired_total 500\n"))
        }
    }

    @Test(arguments: [(Transport.tcp, Transport.tcp), (.webSocket, .tcp)])
    func stoppingRelayGivesTunnelsTimeToFinish(opener: Transport, target: Transport) async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let (ending, itsOther) = try await world.pair(phone, pc, opener, target)
            let (staying, stays) = try await world.pair(phone, pc, opener, target)
            let entrances = try await world.entrances(phone, pc)
            let waiting = try await TunnelClient(.tcp, entrances.opener, at: world.relay)
            #expect(try await eventually { world.core.entrantCount == 5 })
            await world.relay.stop()
            #expect(await waiting.status() == 3)
            // What is said in the time that is left arrives.
            try await ending.send("last words")
            #expect(await itsOther.received(10).text == "last words")
            await ending.close()
            await itsOther.ended()
            // And then it is over.
            await staying.ended()
            await stays.ended()
        }
    }

    @Test func tunnelPortInUseErrorNamesTheOption() async throws {
        try await TestRelay.with { relay in
            let error = await #expect(throws: ListenError.self) {
                try await TestRelay.with(configure: { $0.tunnelListen = [ListenAddress(host: "127.0.0.1", port: relay.port)] }) { _ in }
            }
            #expect(error?.description.contains("--tunnel-listen") == true)
        }
    }
}
