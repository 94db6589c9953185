// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// Accounts with nothing in memory, of a node of several.
@Suite(.timeLimit(.minutes(1))) struct IdleAccountTests {
    /// The wakes would be lost with the account.
    @Test func accountIsKeptUntilItsWakesHaveEnded() async throws {
        let (leases, wakes) = (AllLeases(), RecordingWakes())
        let world = try await CoreWorld(wakes: wakes, leases: leases)
        let (phone, pc) = (TestDevice(subject: "me"), TestDevice(subject: "me"))
        let host = try await world.open(pc)
        let channel = PushRegistration.fcm(token: Secret("token"))
        try await host.send(.notificationsRegister(.init(ref: testRef(), appID: "player", displayName: "", channel: channel)))
        try await host.send(.leaving(.init(ref: testRef(2), reason: .suspended)))
        try await host.disconnect()
        let sender = try await world.open(phone)
        try await sender.send(try await world.command(from: phone, to: pc, account: sender.account))
        try await sender.disconnect()
        let account = AccountID(sender.account)
        #expect(wakes.hasWakes(of: account))
        for _ in 0..<3 { try await world.pass(61_000) }
        world.core.giveBack(1_000)
        #expect(!leases.givenBack.contains(account))
        while !leases.givenBack.contains(account) {
            _ = wakes.take()
            try await world.pass(61_000)
        }
    }
}
