// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// What no transaction checks is not said by a node that may have lost its accounts.
@Suite(.timeLimit(.minutes(5))) struct YoungBeatTests {
    @Test func tunnelsNeedAYoungBeat() async throws {
        let leases = AllLeases()
        try await TunnelWorld.with(leases: leases) { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrances = try await world.entrances(phone, pc)
            func candidates(_ number: UInt8) -> TunnelCandidates { .init(tunnel: entrances.opener.tunnel, candidates: Blob([number])) }

            leases.set(isYoung: false)
            guard case .failure(let failure) = try await phone.ask(pc.id) else { throw TestError("a tunnel was opened") }
            #expect(failure.code == .unavailable && failure.retryAfter == 1_000)
            try await phone.control.send(.tunnelCandidates(candidates(1)))
            let refused = try await TunnelClient(.tcp, entrances.opener, at: world.relay)
            #expect(await refused.status() != TunnelClient.paired[.tcp])
            // The candidates are handled once this is answered.
            try await phone.control.send(.unwatch(.init(ref: .first)))
            #expect(try await phone.control.message().isOK)

            leases.set(isYoung: true)
            try await phone.control.send(.tunnelCandidates(candidates(2)))
            #expect(try await pc.control.message() == .tunnelCandidates(candidates(2)))
            let one = try await TunnelClient(.tcp, entrances.opener, at: world.relay)
            let two = try await TunnelClient(.tcp, entrances.target, at: world.relay)
            #expect(await one.status() == TunnelClient.paired[.tcp])
            #expect(await two.status() == TunnelClient.paired[.tcp])
        }
    }
}
