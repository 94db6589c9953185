// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Testing

/// Launches between real devices over a real relay.
@Suite(.timeLimit(.minutes(2))) struct LaunchTests {
    @Test func aLaunchReachesItsHandlerOnceAndComesBackWithAReceipt() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        #expect(system.status == .available)
        #expect(system.isNew)
        let receipt = try await RemoteLauncher(phone.platform).launch(try url("https://films.example/42"), on: .init(system))
        #expect(receipt.target == .init(endpoint: try pc.id, appID: "org.example.player"))
        #expect(await log.entries == ["https://films.example/42"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}
