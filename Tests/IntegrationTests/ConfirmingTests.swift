// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Confirming and revoking endpoints from short-lived processes.
@Suite(.timeLimit(.minutes(10))) struct ConfirmingTests {
    @Test func confirmationReachesOthersBeforeTheProcessEnds() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC")
        let tablet = try await home.device("Tablet")
        for device in [pc, tablet] {
            for await event in device.platform.remoteSystems() where event == .enumerationCompleted { break }
        }
        let phone = try await home.device("Phone")
        try await phone.platform.publish(player(log: Log<String>()), for: phone.account)
        try await tablet.sees("Phone") { $0.isNew }
        try await pc.sees("Phone") { $0.isNew }
        #expect(await pc.platform.confirm(try phone.id, for: pc.account))
        await pc.platform.shutdown()
        try await tablet.sees("Phone") { !$0.isNew }
        await tablet.platform.shutdown()
        await phone.platform.shutdown()
    }

    @Test(arguments: [false, true]) func offlineConfirmationReachesOthersLater(_ restarts: Bool) async throws {
        let home = try await TestHome()
        let (pc, tablet) = (try await home.device("PC"), try await home.device("Tablet"))
        for device in [pc, tablet] {
            for await event in device.platform.remoteSystems() where event == .enumerationCompleted { break }
        }
        let phone = try await home.device("Phone")
        try await phone.platform.publish(player(log: Log<String>()), for: phone.account)
        try await tablet.sees("Phone") { $0.isNew }
        try await pc.sees("Phone") { $0.isNew }
        try await home.relayd.kill()
        for await state in pc.platform.connectionStates(for: pc.account) where !state.isConnected { break }
        #expect(await pc.platform.confirm(try phone.id, for: pc.account))
        if restarts { try await pc.restart() }
        _ = try await home.relayd.start()
        try await tablet.sees("Phone") { !$0.isNew }
        for device in [phone, pc, tablet] { await device.platform.shutdown() }
    }

    @Test func requestsBeyondTheRateOnlyTakeLonger() async throws {
        let home = try await TestHome()
        let (pc, phone) = (try await home.device("PC"), try await home.device("Phone"))
        let (id, platform, account) = (try phone.id, pc.platform, pc.account)
        // The relay accepts ten at once. Revoking a revoked endpoint again is permitted.
        try await withThrowingTaskGroup { group in
            for _ in 0..<12 { group.addTask { try await platform.revoke(id, for: account) } }
            try await group.waitForAll()
        }
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}
