// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// Candidates pass between the two sides of a tunnel, and nowhere else.
@Suite(.timeLimit(.minutes(10))) struct TunnelCandidatesTests {
    private func text(_ tunnel: TunnelID, _ number: UInt8) -> TunnelCandidates {
        TunnelCandidates(tunnel: tunnel, candidates: Blob([number]))
    }

    private func say(_ tunnel: TunnelID, _ number: UInt8, on party: TunnelWorld.Party) async throws {
        try await party.control.send(.tunnelCandidates(text(tunnel, number)))
    }

    /// Whatever a party has sent is handled once this is answered.
    private func settle(_ parties: TunnelWorld.Party...) async throws {
        for party in parties {
            try await party.control.send(.unwatch(.init(ref: .first)))
            #expect(try await party.control.message().isOK)
        }
    }

    @Test func relayStatesTheFeature() {
        let settings = RelayChannelStateMachine.Settings(relay: RelayID(P256SigningKey().publicKey))
        guard case .welcome(let welcome) = settings.welcome(accountName: nil) else {
            Issue.record("no welcome")
            return
        }
        #expect(welcome.features == ["candidates"])
    }

    @Test func bothSidesHearEachOther() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let tunnel = try await world.entrances(phone, pc).opener.tunnel
            try await say(tunnel, 1, on: phone)
            #expect(try await pc.control.message() == .tunnelCandidates(text(tunnel, 1)))
            try await say(tunnel, 2, on: pc)
            #expect(try await phone.control.message() == .tunnelCandidates(text(tunnel, 2)))
        }
    }

    @Test func pairedTunnelPassesThemUntilItEnds() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrances = try await world.entrances(phone, pc)
            let tunnel = entrances.opener.tunnel
            let one = try await TunnelClient(.tcp, entrances.opener, at: world.relay)
            let two = try await TunnelClient(.tcp, entrances.target, at: world.relay)
            #expect(await one.status() == 0)
            #expect(await two.status() == 0)
            try await say(tunnel, 1, on: phone)
            #expect(try await pc.control.message() == .tunnelCandidates(text(tunnel, 1)))
            // The target's host channel is another one now.
            await pc.disconnect()
            #expect(try await eventually { world.core.channelCount == 1 })
            try await say(tunnel, 2, on: phone)
            try await settle(phone)
            let again = try await world.connect(pc.endpoint)
            try await say(tunnel, 3, on: phone)
            #expect(try await again.control.message() == .tunnelCandidates(text(tunnel, 3)))
            try await say(tunnel, 4, on: again)
            #expect(try await phone.control.message() == .tunnelCandidates(text(tunnel, 4)))
            await one.close()
            await two.close()
            #expect(try await eventually { world.isEmpty })
            try await say(tunnel, 5, on: phone)
            try await settle(phone, again)
        }
    }

    @Test func sideIsHeardEightTimes() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let tunnel = try await world.entrances(phone, pc).opener.tunnel
            for number in 0..<20 as Range<UInt8> { try await say(tunnel, number, on: phone) }
            try await settle(phone)
            for number in 0..<8 as Range<UInt8> { #expect(try await pc.control.message() == .tunnelCandidates(text(tunnel, number))) }
            try await settle(pc)
            // The other side has its own number.
            for number in 0..<9 as Range<UInt8> { try await say(tunnel, number, on: pc) }
            try await settle(pc)
            for number in 0..<8 as Range<UInt8> { #expect(try await phone.control.message() == .tunnelCandidates(text(tunnel, number))) }
            try await settle(phone)
        }
    }

    /// Neither another endpoint, nor another process of a side, nor another account is heard.
    @Test func othersAreNotHeard() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc, tablet) = (try await world.connect(), try await world.connect(), try await world.connect())
            let eve = try await world.connect(token: FixedTokens.other)
            let clients = [
                try await world.connect(phone.endpoint, role: .client), try await world.connect(pc.endpoint, role: .client),
            ]
            let tunnel = try await world.entrances(phone, pc).opener.tunnel
            for party in [tablet, eve] + clients {
                try await say(tunnel, 9, on: party)
                try await settle(party)
            }
            try await settle(phone, pc)
            // And what they said counts for nobody.
            try await say(tunnel, 1, on: phone)
            #expect(try await pc.control.message() == .tunnelCandidates(text(tunnel, 1)))
            try await say(tunnel, 2, on: pc)
            #expect(try await phone.control.message() == .tunnelCandidates(text(tunnel, 2)))
            try await settle(tablet, eve, clients[0], clients[1])
        }
    }

    /// A target that sleeps hears of the tunnel first.
    @Test func waitingTunnelPassesNothing() async throws {
        try await TunnelWorld.with { world in
            let (phone, endpoint) = (try await world.connect(), TransportTestEndpoint())
            await (try await world.connect(endpoint)).disconnect()
            #expect(try await eventually { world.core.channelCount == 1 })
            let tunnel = try await phone.open(endpoint.id, timeout: 20_000)
            try await say(tunnel, 1, on: phone)
            try await settle(phone)
            let pc = try await world.connect(endpoint)
            #expect(try await pc.offer().entrance.tunnel == tunnel)
            #expect(try await phone.ready().tunnel == tunnel)
            try await say(tunnel, 2, on: phone)
            #expect(try await pc.control.message() == .tunnelCandidates(text(tunnel, 2)))
        }
    }

    @Test func malformedOnesEndTheChannel() async throws {
        try await TunnelWorld.with { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let tunnel = try await world.entrances(phone, pc).opener.tunnel
            for bytes in [[], Array(repeating: 0, count: 1_025)] as [[UInt8]] {
                let party = try await world.connect()
                try await party.control.send(.tunnelCandidates(.init(tunnel: tunnel, candidates: Blob(bytes))))
                #expect(await party.control.closeCode() != nil)
            }
            try await say(tunnel, 1, on: phone)
            #expect(try await pc.control.message() == .tunnelCandidates(text(tunnel, 1)))
        }
    }
}
