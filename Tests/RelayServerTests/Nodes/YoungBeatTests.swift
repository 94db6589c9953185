// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import RelayProtocol
import Synchronization
import Testing

@testable import RelayServer

/// What no transaction checks is not said by a node that may have lost its accounts.
@Suite(.timeLimit(.minutes(5))) struct YoungBeatTests {
    /// Those of a node that has all leases, whose beat is old when the test says so.
    private final class AllLeases: AccountLeases {
        private let isYoung = Atomic(true)

        func set(isYoung: Bool) { self.isYoung.store(isYoung, ordering: .relaxed) }

        var hasYoungBeat: Bool { isYoung.load(ordering: .relaxed) }
        var obstacle: String? { nil }
        var scope: AccountScope { .all }

        func claim(_ account: ClaimedAccount, answer: @escaping @Sendable (AccountClaim) -> Void) {
            DispatchQueue.global().async { answer(.here(account.likely, since: 0)) }
        }
        func giveBack(_ account: AccountID) {}
        func giveBackAll() async {}
        func begin(_ report: @escaping @Sendable (LeaseEvent) -> Void) {}
    }

    @Test func tunnelsNeedAYoungBeat() async throws {
        let leases = AllLeases()
        try await TunnelWorld.with(leases: leases) { world in
            let (phone, pc) = (try await world.connect(), try await world.connect())
            let entrances = try await world.entrances(phone, pc)
            func candidates(_ number: UInt8) -> TunnelCandidates { .init(tunnel: entrances.opener.tunnel, candidates: Blob([number])) }

            leases.set(isYoung: false)
            guard case .failure(let failure) = try await phone.ask(pc.id) else { throw TestError("a tunnel was opened") }
            #expect(failure.code == .unavailable && failure.retryAfter == 5_000)
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
