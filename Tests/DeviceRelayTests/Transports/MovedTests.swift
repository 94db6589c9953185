// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import DeviceRelay

/// An endpoint goes on at another node of the relay.
@Suite struct MovedTests {
    private typealias Action = EndpointChannelStateMachine.Action

    private let moved = RelayMessage.Rejected(code: .moved, message: "", retry: true, url: "https://node2.example")

    /// Until the relay answers the hello.
    private func greet(_ bench: inout MachineBench) throws {
        let attempt = bench.machine.attempt
        _ = bench.machine.opened(attempt: attempt, now: 0)
        _ = try bench.receive(.challenge(MachineBench.challenge), now: 0)
        _ = bench.machine.helloReady(attempt: attempt, MachineBench.hello, now: 0, random: &bench.random)
    }

    private func started() throws -> MachineBench {
        var bench = MachineBench()
        _ = bench.machine.start(now: 0)
        _ = bench.machine.tokenReady(attempt: 1, MachineBench.token, now: 0)
        try greet(&bench)
        return bench
    }

    @Test func endpointFollowsAtOnceWithTheSameToken() throws {
        var bench = try started()
        let followed: [Action] = [.close(attempt: 1, code: 1000, reason: ""), .dial(attempt: 2, url: "https://node2.example")]
        #expect(try bench.receive(.rejected(moved), now: 0) == followed)
        #expect(bench.machine.status == .connecting)
        // The former connection says nothing more.
        #expect(bench.machine.closed(attempt: 1, code: 1000, now: 0, random: &bench.random) == [])
        _ = bench.machine.opened(attempt: 2, now: 0)
        #expect(
            try bench.receive(.challenge(MachineBench.challenge), now: 0)
                == [.makeHello(attempt: 2, MachineBench.challenge, token: MachineBench.token)]
        )
        _ = bench.machine.helloReady(attempt: 2, MachineBench.hello, now: 0, random: &bench.random)
        #expect(try bench.receive(.welcome(.sample), now: 0) == [.connected(.sample)])
    }

    @Test func endpointFollowsThreeTimesInARow() throws {
        var bench = try started()
        for _ in 0..<3 {
            _ = try bench.receive(.rejected(moved), now: 0)
            try greet(&bench)
        }
        let actions = try bench.receive(.rejected(moved), now: 0)
        #expect(actions.contains(.disconnected(.rejected(moved))))
        #expect(bench.waitingUntil != nil)
        // Then it begins anew at the configured address.
        let until = try #require(bench.waitingUntil)
        #expect(bench.pass(until) == [.requestToken(attempt: 5)])
        _ = bench.machine.tokenReady(attempt: 5, MachineBench.token, now: until)
        try greet(&bench)
        #expect(try bench.receive(.rejected(moved), now: until).contains(.dial(attempt: 6, url: "https://node2.example")))
    }

    @Test func otherRelayGetsNoToken() throws {
        var bench = try started()
        _ = try bench.receive(.rejected(moved), now: 0)
        _ = bench.machine.opened(attempt: 2, now: 0)
        var other = MachineBench.challenge
        other.relay = RelayID(P256SigningKey().publicKey)
        let actions = try bench.receive(.challenge(other), now: 0)
        #expect(actions.contains(.disconnected(.otherRelay(other.relay))))
        #expect(!actions.contains { if case .makeHello = $0 { true } else { false } })
    }

    @Test(arguments: [nil, "", "https://node2.example/ a", String(repeating: "x", count: 513), "https://é.example"])
    func unusableURLIsNotFollowed(url: String?) throws {
        var bench = try started()
        let rejected = RelayMessage.Rejected(code: .moved, message: "", retry: true, url: url)
        #expect(try bench.receive(.rejected(rejected), now: 0).contains(.disconnected(.rejected(rejected))))
        #expect(bench.waitingUntil != nil)
    }

    @Test(arguments: [
        ("https://relay.example", "https://node.example", true), ("https://relay.example", "http://node.example", false),
        ("https://relay.example", "https://127.0.0.1", false), ("https://relay.example", "https://localhost", false),
        ("https://relay.example", "https://0x7f000001", false), ("http://127.0.0.1:1", "http://127.0.0.1:2", true),
        ("http://127.0.0.1:1", "https://node.example", true), ("http://192.168.1.2", "http://127.0.0.1", false),
        ("http://192.168.1.2", "http://192.168.1.3", true),
    ])
    func addressesThatTheRelayMayName(dialled: String, named: String, isAllowed: Bool) throws {
        func address(_ text: String) throws -> RelayAddress {
            try RelayAddress(try #require(URL(string: text)), allowsPlaintext: true)
        }
        #expect(try address(dialled).mayName(address(named)) == isAllowed)
    }
}
