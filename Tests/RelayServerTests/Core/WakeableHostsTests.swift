// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

@Suite struct WakeableHostsTests {
    static let (host, other) = (ChannelID(1), ChannelID(2))

    /// With a host that can be woken, and one that cannot.
    private func hosts() -> WakeableHosts {
        var hosts = WakeableHosts()
        _ = hosts.tell(.registered, isWakeable: true, to: Self.host)
        _ = hosts.tell(.registered, isWakeable: false, to: Self.other)
        return hosts
    }

    @Test func hostIsToldAStateOnce() {
        var hosts = WakeableHosts()
        #expect(hosts.tell(.registered, isWakeable: true, to: Self.host) == true)
        #expect(hosts.tell(.registered, isWakeable: false, to: Self.host) == false)
        #expect(hosts.tell(.expiring, isWakeable: true, to: Self.host) == true)
        hosts.remove(Self.host)
        #expect(hosts.tell(.expiring, isWakeable: true, to: Self.host) == true)
    }

    @Test func hostThatLeavesAnOfferWithoutAnswerIsSilent() {
        var hosts = hosts()
        #expect(hosts.offered(to: Self.host, at: 100) == 10_100)
        // The first offer counts.
        #expect(hosts.offered(to: Self.host, at: 200) == nil)
        #expect(hosts.offered(to: Self.other, at: 100) == nil)
        #expect(hosts.nextDeadline == 10_100)
        #expect(hosts.takeSilent(at: 10_099) == [])
        #expect(hosts.takeSilent(at: 10_100) == [Self.host])
        #expect(hosts.takeSilent(at: 99_000) == [])
        #expect(hosts.nextDeadline == nil)
        // Its next message answers the wake, once.
        #expect(hosts.heard(from: Self.host) == true)
        #expect(hosts.heard(from: Self.host) == false)
    }

    @Test func signOfLifeEndsTheWait() {
        var hosts = hosts()
        _ = hosts.offered(to: Self.host, at: 100)
        #expect(hosts.heard(from: Self.host) == false)
        #expect(hosts.takeSilent(at: 99_000) == [])
        #expect(hosts.nextDeadline == nil)
        _ = hosts.offered(to: Self.host, at: 100)
        hosts.remove(Self.host)
        #expect(hosts.takeSilent(at: 99_000) == [])
    }
}
