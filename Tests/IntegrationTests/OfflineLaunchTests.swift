// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

/// What an app can do that starts while the relay is away.
@Suite(.timeLimit(.minutes(5))) struct OfflineLaunchTests {
    @Test func launchIsStoredForAKnownDeviceAndSentWhenTheRelayIsBack() async throws {
        let home = try await TestHome()
        let (pc, log) = (try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let phone = try await home.device("Phone")
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        try await home.relayd.kill()
        try await phone.restart()
        let film = try url("https://films.example/1")
        let command = try await RemoteLauncher(phone.platform).submit(film, on: target)
        #expect(command.status == nil && !command.isEnded)
        let shown = try await phone.sees("PC")
        #expect(shown.presence.state == .unknown && shown.presence.reason == .relayUnreachable)
        // The process ends before the relay is back.
        await phone.platform.shutdown()
        _ = try await home.relayd.start()
        try await phone.restart()
        let found = try #require(try await phone.platform.commands(for: phone.account).first { $0.id == command.id })
        _ = try await found.outcome()
        #expect(await log.entries == ["https://films.example/1"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}
